#include "batch/live_text.h"

#include <tuple>
#include <utility>

namespace edgespec {

LiveText::LiveText(Request request, const Pair& pair, OrtSequence& target, OrtSequence* draft,
                   CostClock& clock, Signals& signals)
    : target_(target), signals_(signals), text_(std::move(request), pair, target, draft, clock) {
  target.wait_in(waiting_);
  if (draft != nullptr) draft->wait_in(waiting_);
}

// All pieces of the text; returns how many there were.
Requests<int64_t> LiveText::pieces() {
  co_await text_.begin();
  for (int64_t count = 1;; ++count) {
    Piece piece = co_await text_.next();
    const bool is_last = piece.ending != Ending::kNone;
    tokens_ += std::ssize(piece.round.tokens);
    ready_.push_back(std::move(piece));
    if (is_last) co_return count;
  }
}

void LiveText::start() {
  made_.emplace(pieces());
  made_->start();
  look_at_end();
}

std::optional<SharedRequest> LiveText::request() const {
  if (is_reading_) {
    if (reads_first_ != nullptr) return SharedRequest{reads_first_, {}};
    return SharedRequest{&reader(), reader().piece()};
  }
  if (const auto* score = std::get_if<Score>(&waiting_.request)) {
    return SharedRequest{static_cast<OrtSequence*>(score->model), score->tokens, 0, Wanted::kLogits,
                         score->candidates};
  }
  if (const auto* best = std::get_if<BestScore>(&waiting_.request)) {
    return SharedRequest{static_cast<OrtSequence*>(best->model), best->tokens, best->skip,
                         Wanted::kBest, best->candidates};
  }
  if (const auto* likely = std::get_if<LikelyScore>(&waiting_.request)) {
    return SharedRequest{static_cast<OrtSequence*>(likely->model), likely->tokens,
                         std::ssize(likely->tokens) - 1, Wanted::kLikely};
  }
  return std::nullopt;
}

std::optional<Piece> LiveText::next_piece() {
  if (!ready_.empty()) {
    Piece piece = std::move(ready_.front());
    ready_.pop_front();
    return piece;
  }
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  return std::nullopt;
}

void LiveText::begin_reading() {
  is_reading_ = true;
  try {
    reads_first_ = reader().reads_first();
    if (reads_first_ == nullptr) {
      reader().begin_reading(*wanted_prompt()->prompt);
      read_on();
    }
  } catch (...) {
    fail(std::current_exception());
  }
}

void LiveText::read_on() {
  OrtSequence& sequence = reader();
  const bool has_more = !sequence.piece().empty();
  const Token pending = has_more ? -1 : sequence.end_reading();
  if (&sequence == &target_) std::tie(signals_.read, signals_.to_read) = sequence.progress();
  if (has_more) return;
  is_reading_ = false;
  resume(pending);
}

void LiveText::answer(const SharedAnswer& answer) {
  if (!is_reading_) {
    if (const auto* rows = std::get_if<Rows>(&answer)) return resume(*rows);
    if (const auto* likely = std::get_if<LikelyTokens>(&answer)) return resume(*likely);
    return resume(std::get<BestTokens>(answer));
  }
  try {
    if (reads_first_ != nullptr) {
      reads_first_ = nullptr;
      reader().begin_reading(*wanted_prompt()->prompt);
    }
    read_on();
  } catch (...) {
    fail(std::current_exception());
  }
}

void LiveText::fail(std::exception_ptr error) {
  is_reading_ = false;
  reads_first_ = nullptr;
  resume(std::move(error));
}

void LiveText::resume(decltype(Waiting::answer) answer) {
  waiting_.answer = std::move(answer);
  waiting_.request = std::monostate();
  std::exchange(waiting_.computation, nullptr).resume();
  look_at_end();
}

void LiveText::look_at_end() {
  if (!made_->is_done()) return;
  has_ended_ = true;
  try {
    made_->result();
  } catch (...) {
    error_ = std::current_exception();
  }
}

}  // namespace edgespec
