#include "ort/ort_sequence.h"

#include <algorithm>

#include "core/error.h"
#include "core/shown.h"
#include "ort/ort_batch.h"

namespace edgespec {
namespace {

constexpr int64_t kMaxPieceRows = 256;
constexpr int64_t kLastRows =
    64;  // of a prompt, at most, that wait for the call of the first token

int64_t common_length(const std::vector<CachedPosition>& left,
                      const std::vector<CachedPosition>& right) {
  return std::ranges::mismatch(left, right).in1 - left.begin();
}

}  // namespace

int64_t OrtSequence::vocab_size() const { return batch_.exported().vocab_size; }
int64_t OrtSequence::capacity() const { return batch_.capacity(); }
bool OrtSequence::returns_best_tokens() const { return batch_.returns_best_tokens(); }
bool OrtSequence::scores_candidates() const { return batch_.scores_candidates(); }

int64_t OrtSequence::candidate_room(int64_t count) const {
  if (!scores_candidates()) return 0;
  return std::max<int64_t>(0, std::min(kMaxRows, capacity() - length()) - count);
}

Token OrtSequence::prefill(const Tokens& prompt, const Answers&) {
  if (OrtSequence* first = reads_first()) first->batch_.compute({SharedRequest{first, {}}});
  begin_reading(prompt);
  while (!piece().empty()) batch_.compute({SharedRequest{this, piece()}});
  return end_reading();
}

Rows OrtSequence::score(std::span<const Token> tokens, Candidates candidates) {
  const SharedRequest request{this, tokens, 0, Wanted::kLogits, candidates};
  return std::get<Rows>(batch_.compute({request})[0]);
}

BestTokens OrtSequence::best_tokens(std::span<const Token> tokens, Candidates candidates,
                                    int64_t skip) {
  const SharedRequest request{this, tokens, skip, Wanted::kBest, candidates};
  return std::get<BestTokens>(batch_.compute({request})[0]);
}

LikelyTokens OrtSequence::likely_tokens(std::span<const Token> tokens) {
  const SharedRequest request{this, tokens, std::ssize(tokens) - 1, Wanted::kLikely};
  return std::get<LikelyTokens>(batch_.compute({request})[0]);
}

void OrtSequence::commit_candidate(size_t number) {
  const auto& [token, layout] = candidates_.at(number);
  batch_.copy_positions(layout.index, layout.start + layout.position, 1);
  append({&token, 1});
}

void OrtSequence::rewind(int64_t length) {
  if (!(0 <= length && length <= this->length())) {
    throw Error("cannot rewind to " + shown(length) + " from " + shown(this->length()) +
                " positions");
  }
  const int64_t unread = std::max<int64_t>(0, length - computed_length());
  cached_.resize(length);
  unread_.resize(std::min<int64_t>(unread, std::ssize(unread_)));
  rewind_states();
}

// Positions whose states are not kept any more, and cannot be made of what is kept, are unread
// again: rows have the same bits in any call.
void OrtSequence::rewind_states() {
  if (!states_) return;
  const int64_t computed = computed_length();
  states_->rewind(computed);
  const int64_t reach = states_->reach(computed);
  if (reach == computed) return;
  states_->rewind(reach);
  unread_.clear();
  for (int64_t i = reach; i < length(); ++i) unread_.push_back(cached_token(i));
}

void OrtSequence::check_prompt(const Tokens& prompt) const {
  if (prompt.empty()) throw UsageError("the prompt is empty; give at least one token");
  if (std::ssize(prompt) > capacity()) {
    throw UsageError("the prompt has " + shown(int64_t(std::ssize(prompt))) +
                     " tokens and the cache holds " + shown(capacity()) + "; shorten the prompt" +
                     capacity_advice());
  }
  const int64_t known = batch_.exported().read_tokens;
  const auto [lowest, highest] = std::ranges::minmax(prompt);
  if (0 <= lowest && highest < known) return;
  throw UsageError("token " + shown(lowest < 0 ? lowest : highest) + " is outside the model's " +
                   shown(known) + " tokens");
}

void OrtSequence::begin_reading(const Tokens& prompt) {
  check_prompt(prompt);
  prompt_ = prompt;
  apart_ = 0;
  if (batch_.exported().start_token) {
    rewind(0);
    source_ = batch_.encode(prompt, start_);
    return;
  }
  const Tokens known(prompt.begin(), prompt.end() - 1);
  rewind(kept(position_keys(known)));
  rewind(computed_length());
  had_ = length();
  apart_ = std::ssize(known) - kLastRows;
}

std::span<const Token> OrtSequence::piece() const {
  const int64_t count = std::min(apart_ - length(), kMaxPieceRows);
  return count > 0 ? std::span(prompt_).subspan(length(), count) : std::span<const Token>();
}

Token OrtSequence::end_reading() {
  if (const auto start = batch_.exported().start_token) return *start;
  const std::span rest = std::span(prompt_).first(prompt_.size() - 1).subspan(length());
  append(rest);
  unread_.assign(rest.begin(), rest.end());
  return prompt_.back();
}

std::pair<int64_t, int64_t> OrtSequence::progress() const {
  const int64_t count = std::ssize(prompt_);
  if (batch_.exported().start_token) return {count, count};
  return {length() - had_, count - 1 - had_};
}

std::vector<CachedPosition> OrtSequence::position_keys(const Tokens& prompt) const {
  std::vector<CachedPosition> keys;
  for (int64_t i = 0; i < std::ssize(prompt); ++i) keys.push_back({prompt[i], key_of(i)});
  return keys;
}

int64_t OrtSequence::kept(const std::vector<CachedPosition>& keys) const {
  return std::min({valid_length(), computed_length(), promised(keys)});
}

int64_t OrtSequence::promised(const std::vector<CachedPosition>& keys) const {
  return batch_.exported().start_token ? 0 : common_length(cached_, keys);
}

void OrtSequence::copy(const OrtSequence& other, int64_t length) {
  batch_.copy_positions(other.start_, start_, length);
  cached_.assign(other.cached_.begin(), other.cached_.begin() + length);
  unread_.clear();
  if (states_) states_->copy(*other.states_, length);
  rewind_states();
  copied(length);
}

std::vector<SharedRow> OrtSequence::rows_of(std::span<const Token> tokens,
                                            Candidates candidates) const {
  const int64_t count = std::ssize(tokens) + std::ssize(candidates), room = capacity() - length();
  if (count > room || (count == 0 && unread_.empty())) {
    throw Error("asked to score " + shown(count) + " positions with room for " + shown(room) +
                " of " + shown(capacity()) + capacity_advice());
  }
  std::vector<SharedRow> rows;
  int64_t position = computed_length();
  const auto add = [&](Token token) {
    rows.push_back({token, {start_, position, start_ + position}, source_});
    ++position;
  };
  std::ranges::for_each(unread_, add);
  std::ranges::for_each(tokens, add);
  for (const auto& [token, layout] : laid_out(candidates, std::ssize(tokens), start_, length())) {
    rows.push_back({token, layout, source_});
  }
  return rows;
}

StateStep OrtSequence::begin_step(int64_t rows, Wanted wanted) {
  const int64_t certain = wanted == Wanted::kNothing ? rows : std::ssize(unread_);
  // A rewind leaves states that a call can start from.
  step_ = states_->step(computed_length(), rows, rows, certain).value();
  states_->begin(*step_);
  return *step_;
}

void OrtSequence::computed(std::span<const Token> tokens, Candidates candidates) {
  candidates_ = laid_out(candidates, std::ssize(tokens), start_, length());
  if (step_) states_->end(*step_);
  step_.reset();
  unread_.clear();
  append(tokens);
}

void OrtSequence::append(std::span<const Token> tokens) {
  for (const Token token : tokens) cached_.push_back({token, key_of(length())});
}

std::string OrtSequence::capacity_advice() const {
  return batch_.exported().positions == capacity() ? "" : " or give more capacity";
}

}  // namespace edgespec
