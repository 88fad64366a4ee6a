// Runs an EAGLE head, a draft that takes its target's hidden states (arXiv:2503.01840).
#pragma once

#include <vector>

#include "ort/eagle_positions.h"
#include "ort/ort_model.h"

namespace edgespec {

// A position takes the target's features of the position before it, fused, or the head's own hidden
// state (`EaglePositions`).
class EagleModel : public OrtModel {
 public:
  // `target`: whose features it takes; both hold the same text.
  EagleModel(const ModelGraphs& graphs, const Calls& calls, const OrtModel& target);

  int64_t valid_length() const override;
  void archive(Archive& archive) override;

 protected:
  Token key_of(int64_t position) const override;
  // Nothing of a source: the target reads it.
  Source encode(const Tokens&) override { return {}; }
  void set_states(Call& call, int64_t count) override;
  void store_states(Call& call, int64_t count) override;
  // Writes the fused features of the position before each, zeros before position 0.
  void fuse(int64_t first, int64_t end, std::span<float> states);

  const OrtModel& target_;
  int64_t width_;  // of a hidden state
  EaglePositions head_;
};

}  // namespace edgespec
