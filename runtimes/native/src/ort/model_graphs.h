// The graphs of a model's variant, loaded once.
#pragma once

#include <optional>

#include "artifact/manifest.h"
#include "ort/graph.h"

namespace edgespec {

struct ModelGraphs {
  // Throws Error: a graph cannot be loaded, or is missing.
  ModelGraphs(const OrtRuntime& runtime, const Kernels& kernels, const Manifest& manifest,
              const Exported& exported, const Variant& variant, int threads);

  // Whether a call may have candidates: a state of a recurrent layer goes on with one token.
  bool take_candidates() const {
    return decoder.has_optional("layouts") && exported.states.empty();
  }

  const Exported& exported;
  const Variant& variant;
  Graph decoder;
  std::optional<Graph> encoder;     // of an encoder-decoder
  std::optional<Graph> fusion;      // of an EAGLE head: fuses its target's features
  std::optional<Graph> transition;  // of a block draft: what a token says of the next one
};

}  // namespace edgespec
