// What an encoder made of a source: keys and values that a decoder attends to.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/distribution.h"
#include "ort/graph.h"

namespace edgespec {

// Tensors by the names that they have as inputs of the decoder.
struct Source {
  std::vector<std::string> names;
  std::vector<OrtOwned<OrtValue>> tensors;
  // The encoder's own, [source length, width], for a draft that reads them; null where none does.
  OrtOwned<OrtValue> states{nullptr, nullptr};
};

// Whether an encoder's output is such; others are hidden states, for drafts that read them.
bool is_cross(const std::string& output);

// Runs an encoder on all tokens of a source.
Source encoded(const Graph& encoder, std::span<const Token> tokens);
// Runs a speech model's encoder on a window of sound, its log-mel spectrogram [mel bins, frames].
Source encoded(const Graph& encoder, std::vector<float>& log_mel, int64_t mel_bins);
// Runs a draft's encoder on the states of its target's.
Source encoded(const Graph& encoder, const OrtValue& states);

}  // namespace edgespec
