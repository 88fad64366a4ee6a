#include "ort/eagle_positions.h"

#include <algorithm>

#include "core/error.h"
#include "core/shown.h"

namespace edgespec {

void EaglePositions::take_features(int64_t first, int64_t end) {
  if (valid_length(first) == first) valid_ = end;
}

bool EaglePositions::takes_features(int64_t first, int64_t end, int64_t target_length) {
  if (end <= target_length + 1) {  // the target has been at every position before these
    take_features(first, end);
    return true;
  }
  if (end - first == 1 && hidden_position_ == first - 1) {
    valid_ = valid_length(first);
    return false;
  }
  throw Error("asked to score positions " + shown(first) + " to " + shown(end - 1) +
              " where the target has scored " + shown(target_length) +
              "; score later ones one at a time");
}

void EaglePositions::keep_hidden(std::span<const float> state, int64_t position) {
  std::ranges::copy(state, hidden_.begin());
  hidden_position_ = position;
}

void EaglePositions::copied(int64_t length) {
  valid_ = length;
  hidden_position_ = -1;
}

void EaglePositions::archive(Archive& archive) {
  const auto width = std::ssize(hidden_);
  archive(hidden_, hidden_position_, valid_);
  archive.check(std::ssize(hidden_) == width && 0 <= valid_);
}

}  // namespace edgespec
