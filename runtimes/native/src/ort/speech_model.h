// Runs a speech model: its encoder reads sound, and its decoder a text about it.
#pragma once

#include <vector>

#include "ort/ort_model.h"

namespace edgespec {

// A decoder of texts about a window of sound. Its prompts are the decoder's.
class SpeechModel : public OrtModel {
 public:
  // `mel_bins`: of its spectrograms.
  SpeechModel(const ModelGraphs& graphs, const Calls& calls, int64_t mel_bins);

  // Takes the window of sound that the next texts are about, [mel bins, frames]. The encoder reads
  // it when the first of them begins: a draft that is not asked to draft never does.
  void hear(std::vector<float> log_mel);
  Token prefill(const Tokens& prompt, const Answers& answers) override;

 private:
  int64_t mel_bins_;
  std::vector<float> unread_;  // the window, until the encoder reads it
  bool has_source_ = false;
};

}  // namespace edgespec
