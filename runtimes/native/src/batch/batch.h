// Several texts of a pair at once, which share the calls of its models. Each has the tokens that it
// has alone.
#pragma once

#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "batch/live_text.h"
#include "batch/load_clock.h"
#include "batch/scheduler.h"

namespace edgespec {

// A piece of one of the texts, or why it failed: then it has ended, and the others go on.
struct TextEvent {
  int64_t text;
  std::variant<Piece, std::exception_ptr> what;
};

// Used by one thread at a time; `cancel` and `progress` by any.
class Batch {
 public:
  // `texts`: how many at once. Throws UsageError: none, too many, or there is no memory for their
  // caches. Error: they might differ from those alone on this machine.
  Batch(std::shared_ptr<const Pair> pair, int64_t texts);

  const Pair& pair() const { return *pair_; }
  // Begins a text; returns its number, counted from 0, and its seed. Throws UsageError: as a
  // session does, or as many texts are being made as can be.
  std::pair<int64_t, uint64_t> add(Request request);
  // What comes next of any text; none if no text is being made. The last piece of a text has its
  // ending, and its place is free then.
  std::optional<TextEvent> next();
  // Ends a text: its next event is a CancelledError. One that has ended stays as it is.
  void cancel(int64_t text);
  // How many positions of a text's prompt were read, and had to be; zeros of one that has ended.
  std::pair<int64_t, int64_t> progress(int64_t text);

 private:
  // The caches of one text, and the text that is being made in them.
  struct Slot {
    Slot(OrtSequence& target, OrtSequence* draft) : target(target), draft(draft) {}

    OrtSequence& target;
    OrtSequence* draft;
    int64_t number = -1;  // the text's; -1: it is free
    Signals signals;
    std::unique_ptr<LiveText> text;
  };

  Slot& free_slot(const Tokens& prompt);
  void release(Slot& slot);
  std::optional<TextEvent> ready();
  std::optional<TextEvent> ready_of(Slot& slot);

  std::shared_ptr<const Pair> pair_;
  std::unique_ptr<OrtBatch> targets_, drafts_;
  LoadClock clock_;
  Scheduler scheduler_;
  std::mutex numbers_;                        // of the slots' texts, which other threads ask for
  std::vector<std::unique_ptr<Slot>> slots_;  // the one that was used last is the last
  int64_t added_ = 0;
};

}  // namespace edgespec
