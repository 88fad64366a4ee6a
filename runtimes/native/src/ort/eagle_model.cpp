#include "ort/eagle_model.h"

#include <algorithm>

#include "ort/fusion.h"

namespace edgespec {

EagleModel::EagleModel(const ModelGraphs& graphs, const Calls& calls, const OrtModel& target)
    : OrtModel(graphs, calls),
      target_(target),
      width_(graphs.fusion->width_of("fused_states")),
      head_(width_) {}

int64_t EagleModel::valid_length() const { return head_.valid_length(length()); }

void EagleModel::archive(Archive& archive) {
  OrtModel::archive(archive);
  head_.archive(archive);
}

// All tokens that the head lacks have the same id there, but the features after them differ.
Token EagleModel::key_of(int64_t position) const {
  return position < target_.length() ? target_.cached_token(position) : -1;
}

void EagleModel::set_states(Call& call, int64_t count) {
  const int64_t first = length(), end = first + count;
  const std::span<float> states = call.state("fused_states");
  if (head_.takes_features(first, end, target_.length())) {
    fuse(first, end, states);
  } else {
    std::ranges::copy(head_.hidden(), states.begin());
  }
}

void EagleModel::store_states(Call& call, int64_t count) {
  const std::span<const float> hidden = call.state("hidden");
  head_.keep_hidden(hidden.subspan((count - 1) * width_, width_), length() + count - 1);
}

void EagleModel::fuse(int64_t first, int64_t end, std::span<float> states) {
  if (first == 0) {
    std::fill_n(states.begin(), width_, 0.0F);
    if (end == 1) return;
    return fuse(1, end, states.subspan(width_));
  }
  const std::span<const float> read = target_.features(first - 1, end - 1);
  const std::vector<float> found =
      fused(*graphs_.fusion, {read.begin(), read.end()}, end - first, width_);
  std::ranges::copy(found, states.begin());
}

}  // namespace edgespec
