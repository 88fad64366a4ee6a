// One text or transcript after the other, in caches of its own, each pulled round by round.
#pragma once

#include <memory>

#include "session/pair.h"
#include "session/request.h"
#include "session/round_clock.h"
#include "session/text.h"
#include "session/transcriber.h"

namespace edgespec {

// Used by one thread at a time; `cancel` and `signals` by any.
class Session {
 public:
  explicit Session(std::shared_ptr<const Pair> pair);

  const Pair& pair() const { return *pair_; }
  // Begins a text; one that has not ended is dropped. Returns its seed. Throws UsageError: an
  // option is out of its range, the prompt is empty or too long, or the pair transcribes sounds.
  uint64_t begin(Request request);
  // The next round, then the end. Throws UsageError: no text is being made. CancelledError.
  Piece next();
  // The same of a transcript: see `Transcriber`. Throws UsageError: the pair continues texts.
  void begin_transcript(Sound sound, Request request);
  TranscriptPiece next_segment();
  // Ends the text that is being made, at its next call of a model. Another may begin.
  void cancel() { signals_.cancelled = true; }
  const Signals& signals() const { return signals_; }

  // Throws UsageError: it cannot be forked or saved, since the pair transcribes sounds.
  void check_is_kept() const;
  // Another with the same caches and text, which goes on from here as this one does.
  std::unique_ptr<Session> fork();
  // Writes or reads caches and text. Throws Error: what was read is impossible; the session is then
  // of no use.
  void archive(Archive& archive);

 private:
  OrtModel* draft_for(const Request& request);

  std::shared_ptr<const Pair> pair_;
  Signals signals_;
  std::unique_ptr<OrtModel> target_;  // null where a pair transcribes
  std::unique_ptr<OrtModel> draft_;   // made when a text first drafts
  RoundClock clock_;
  std::unique_ptr<Text> text_;
  std::unique_ptr<Transcriber> transcriber_;
};

}  // namespace edgespec
