// Where the rows of an EAGLE head take their states from: the target's features, or the head.
//
// Until the target has computed the features of a position, the one after it takes the head's own
// hidden state. Such positions are scored one at a time, and again after the target has been there.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "core/archive.h"

namespace edgespec {

// What is known of the positions of one sequence in a head's cache.
class EaglePositions {
 public:
  // `width`: of a hidden state.
  explicit EaglePositions(int64_t width) : hidden_(width) {}

  // How many leading positions of a cache of this length were computed from the target's features.
  int64_t valid_length(int64_t length) const { return std::min(valid_, length); }
  // Records a call whose rows, positions first … end - 1, take the target's features.
  void take_features(int64_t first, int64_t end);
  // Records a call of positions first … end - 1, and says whether its rows take the features of a
  // target that has scored so many positions; a single row takes `hidden` otherwise. Throws Error:
  // neither can be.
  bool takes_features(int64_t first, int64_t end, int64_t target_length);
  // The head's own state of its latest row.
  std::span<const float> hidden() const { return hidden_; }
  // Keeps the state that the row of a position returned.
  void keep_hidden(std::span<const float> state, int64_t position);
  // So many positions, computed from features, were copied from another sequence.
  void copied(int64_t length);
  void archive(Archive& archive);

 private:
  std::vector<float> hidden_;
  int64_t hidden_position_ = -1;  // the position that returned it
  int64_t valid_ = 0;
};

}  // namespace edgespec
