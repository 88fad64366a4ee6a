// Runs an EAGLE head, a draft that takes its target's hidden states (arXiv:2503.01840).
#pragma once

#include <vector>

#include "ort/ort_model.h"

namespace edgespec {

// A position takes the target's features of the position before it, fused.
//
// Until the target has computed them, a position takes the head's own hidden state. Such positions
// are scored one at a time and are not part of `valid_length`: they are scored again after the
// target has computed its features.
class EagleModel : public OrtModel {
 public:
  // `target`: whose features it takes; both hold the same text.
  EagleModel(const ModelGraphs& graphs, const Calls& calls, const OrtModel& target);

  int64_t valid_length() const override;
  void archive(Archive& archive) override;

 protected:
  Token key_of(int64_t position) const override;
  void set_states(Call& call, int64_t count) override;
  void store_states(Call& call, int64_t count) override;

 private:
  // Writes the fused features of the position before each, zeros before position 0.
  void fuse(int64_t first, int64_t end, std::span<float> states);

  const OrtModel& target_;
  int64_t features_;              // width of the target's
  std::vector<float> hidden_;     // the head's own state of its latest row
  int64_t hidden_position_ = -1;  // the position that returned it
  int64_t valid_ = 0;             // leading positions that were computed from the target's features
};

}  // namespace edgespec
