// One transcript after the other, each pulled segment by segment.
#pragma once

#include <memory>
#include <optional>

#include "session/pair.h"
#include "session/request.h"
#include "session/round_clock.h"
#include "session/transcript.h"

namespace edgespec {

// What a pull of a transcript brings: a segment, or none at the end; and how far it is.
struct TranscriptPiece {
  std::optional<Segment> segment;
  Progress progress;
  Counts counts;
};

// The caches of a speech pair.
class Transcriber {
 public:
  // Its models refuse to run while the signals say so. Both must outlive it.
  Transcriber(const Pair& pair, const Signals& signals);

  // Begins a transcript; one that has not ended is dropped. `request`: draft, γ and seed. Throws
  // UsageError: an option is out of its range, or the sound is too short.
  void begin(Sound sound, Request request);
  // Throws UsageError: no transcript is being made. CancelledError.
  TranscriptPiece next();

 private:
  SpeechModel* draft_for(const Request& request);

  const Pair& pair_;
  const Signals& signals_;
  std::unique_ptr<SpeechModel> target_;
  std::unique_ptr<SpeechModel> draft_;  // made when a transcript first drafts
  RoundClock clock_;
  WindowDrafting windows_;
  std::unique_ptr<Transcript> transcript_;
};

}  // namespace edgespec
