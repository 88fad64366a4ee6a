// A text that is being made beside others: what it waits for, and its pieces so far.
#pragma once

#include <deque>
#include <exception>
#include <optional>

#include "core/requests.h"
#include "ort/ort_model.h"
#include "ort/ort_sequence.h"
#include "session/text.h"

namespace edgespec {

class LiveText {
 public:
  // `target`, `draft`: its caches; no model drafts where `draft` is null. `signals`: is told how
  // far its prompt is read. All must outlive it.
  LiveText(Request request, const Pair& pair, OrtSequence& target, OrtSequence* draft,
           CostClock& clock, Signals& signals);
  LiveText(const LiveText&) = delete;

  bool is_new() const { return !made_; }
  // Whether no more pieces come.
  bool has_ended() const { return has_ended_; }
  // Whether it waits for a piece of its prompt.
  bool is_reading() const { return is_reading_; }
  // The prompt that it wants to read, or reads; null if it waits for something else.
  const Prefill* wanted_prompt() const { return std::get_if<Prefill>(&waiting_.request); }
  // What it wants of its next call; none where it has not begun to read, or has ended.
  std::optional<SharedRequest> request() const;
  int64_t tokens() const { return tokens_; }
  // Takes the pieces that were made so far. Throws what ended the text, after the last.
  std::optional<Piece> next_piece();

  // Runs the text up to what it waits for first.
  void start();
  // Begins to read the prompt that it waits for.
  void begin_reading();
  // Answers the request, and runs the text up to the next.
  void answer(const SharedAnswer& answer);
  // Answers it with an error.
  void fail(std::exception_ptr error);

 private:
  Requests<int64_t> pieces();
  OrtSequence& reader() const { return static_cast<OrtSequence&>(*wanted_prompt()->model); }
  void read_on();
  void resume(decltype(Waiting::answer) answer);
  void look_at_end();

  OrtSequence& target_;
  Signals& signals_;
  Waiting waiting_;
  Text text_;
  bool is_reading_ = false;
  OrtSequence* reads_first_ = nullptr;  // must be computed before the prompt is read
  std::deque<Piece> ready_;
  std::exception_ptr error_;
  int64_t tokens_ = 0;
  bool has_ended_ = false;
  std::optional<Requests<int64_t>> made_;  // of `text_`
};

}  // namespace edgespec
