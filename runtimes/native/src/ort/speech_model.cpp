#include "ort/speech_model.h"

#include <utility>

#include "core/error.h"

namespace edgespec {

SpeechModel::SpeechModel(const ModelGraphs& graphs, const Calls& calls, int64_t mel_bins)
    : OrtModel(graphs, calls), mel_bins_(mel_bins) {
  if (!graphs.encoder) {
    throw Error(graphs.exported.source + " lacks its encoder; export the pair again");
  }
}

void SpeechModel::hear(std::vector<float> log_mel) {
  forget_source();
  unread_ = std::move(log_mel);
  has_source_ = false;
}

Token SpeechModel::prefill(const Tokens& prompt, const Answers& answers) {
  if (!has_source_) {
    if (unread_.empty()) {
      throw Error("a speech model was given no sound; let it hear a window first");
    }
    check_cancelled();
    const Timed timed(*this);
    take_source(encoded(*graphs_.encoder, unread_, mel_bins_));
    has_source_ = true;
  }
  return OrtModel::prefill(prompt, answers);
}

}  // namespace edgespec
