#include "ort/eagle_model.h"

#include <algorithm>

#include "core/error.h"
#include "core/shown.h"

namespace edgespec {
namespace {

constexpr const char* kFusedStates = "fused_states";

}  // namespace

EagleModel::EagleModel(const ModelGraphs& graphs, const Calls& calls, const OrtModel& target)
    : OrtModel(graphs, calls),
      target_(target),
      features_(graphs.exported.features),
      hidden_(graphs.decoder.width_of("hidden")) {}

int64_t EagleModel::valid_length() const { return std::min(valid_, length()); }

void EagleModel::archive(Archive& archive) {
  OrtModel::archive(archive);
  const auto width = std::ssize(hidden_);
  archive(hidden_, hidden_position_, valid_);
  archive.check(std::ssize(hidden_) == width && 0 <= valid_);
}

// All tokens that the head lacks have the same id there, but the features after them differ.
Token EagleModel::key_of(int64_t position) const {
  return position < target_.length() ? target_.cached_token(position) : -1;
}

void EagleModel::set_states(Call& call, int64_t count) {
  const int64_t first = length(), end = first + count, known = valid_length();
  const std::span<float> states = call.state(kFusedStates);
  if (end <= target_.length() + 1) {  // the target has been at every position before these
    fuse(first, end, states);
    if (known == first) valid_ = end;
    return;
  }
  if (count != 1 || hidden_position_ != first - 1) {
    throw Error("asked to score positions " + shown(first) + " to " + shown(end - 1) +
                " where the target has scored " + shown(target_.length()) +
                "; score later ones one at a time");
  }
  std::ranges::copy(hidden_, states.begin());
  valid_ = known;
}

void EagleModel::store_states(Call& call, int64_t count) {
  const auto width = std::ssize(hidden_);
  std::copy_n(call.state("hidden").begin() + (count - 1) * width, width, hidden_.begin());
  hidden_position_ = length() + count - 1;
}

void EagleModel::fuse(int64_t first, int64_t end, std::span<float> states) {
  const auto width = std::ssize(hidden_);
  if (first == 0) {
    std::fill_n(states.begin(), width, 0.0F);
    if (end == 1) return;
    return fuse(1, end, states.subspan(width));
  }
  const OrtRuntime& runtime = graphs_.fusion->runtime();
  const int64_t count = end - first;
  std::span<const float> read = target_.features(first - 1, end - 1);
  std::vector<float> features(read.begin(), read.end());
  const auto input = tensor_over(runtime, features, {count, features_});
  const auto output = tensor_over(runtime, states.data(), size_t(count * width) * sizeof(float),
                                  {count, width}, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT);
  const char *taken = "features", *given = kFusedStates;
  const OrtValue* inputs = input.get();
  OrtValue* outputs = output.get();
  runtime.check(runtime.api().Run(graphs_.fusion->session(), nullptr, &taken, &inputs, 1, &given, 1,
                                  &outputs));
}

}  // namespace edgespec
