#include "ort/shared_encoder_model.h"

#include "core/error.h"
#include "core/shown.h"

namespace edgespec {

SharedEncoderModel::SharedEncoderModel(const ModelGraphs& graphs, const Calls& calls,
                                       const OrtModel& target)
    : OrtModel(graphs, calls), target_(target) {}

// A source that the target does not have any more is of an earlier text, and cannot be read again.
void SharedEncoderModel::archive(Archive& archive) {
  if (!archive.reads() && target_tokens_ != target_.source_tokens()) forget_source();
  OrtModel::archive(archive);
}

Source SharedEncoderModel::encode(const Tokens& prompt) {
  const OrtValue* states = target_.encoder_states();
  const int64_t read = states == nullptr ? 0 : std::ssize(target_.source_tokens());
  if (read != std::ssize(prompt)) {
    throw Error("the draft was given " + shown(int64_t(std::ssize(prompt))) +
                " source tokens, and its target's encoder has read " + shown(read) +
                "; start the target's text first");
  }
  target_tokens_ = target_.source_tokens();
  return encoded(*graphs_.encoder, *states);
}

}  // namespace edgespec
