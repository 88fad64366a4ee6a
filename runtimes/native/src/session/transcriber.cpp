#include "session/transcriber.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace edgespec {

Transcriber::Transcriber(const Pair& pair, const Signals& signals)
    : pair_(pair),
      signals_(signals),
      target_(pair.make_speech_target(signals.cancelled)),
      clock_(pair) {}

void Transcriber::begin(Sound sound, Request request) {
  transcript_.reset();
  sound.options = checked(std::move(sound.options), pair_.speech());
  request = checked(std::move(request), pair_);
  SpeechModel* draft = draft_for(request);
  WindowDecoding decoding(std::move(request), pair_, *target_, draft, clock_, windows_);
  transcript_ =
      std::make_unique<Transcript>(std::move(sound), pair_, *target_, draft, std::move(decoding));
}

TranscriptPiece Transcriber::next() {
  if (transcript_ == nullptr) {
    throw UsageError("no transcript is being made in this session; begin one first");
  }
  try {
    auto segment = transcript_->next();
    return {std::move(segment), transcript_->progress(), transcript_->counts()};
  } catch (const Error&) {
    transcript_.reset();  // it cannot go on
    throw;
  }
}

SpeechModel* Transcriber::draft_for(const Request& request) {
  if (!uses_model(request)) return nullptr;
  if (draft_ == nullptr) draft_ = pair_.make_speech_draft(signals_.cancelled);
  return draft_.get();
}

}  // namespace edgespec
