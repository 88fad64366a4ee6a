#include "drafters/suffix_automaton.h"

#include <tuple>
#include <utility>

namespace edgespec {
namespace {

constexpr int kCounted = 32;     // substrings whose counts one token changes, the longest first
constexpr int64_t kWidest = 32;  // different tokens after a substring that says something

}  // namespace

void SuffixAutomaton::append(Token token) {
  if (std::ssize(tokens_) == most_) forget_older_half();
  tokens_.push_back(token);
  const int32_t whole = add({.length = states_[last_].length + 1, .link = 0});
  int32_t state = std::exchange(last_, whole);
  while (state >= 0 && states_[state].next.emplace(token, whole).second) {
    state = states_[state].link;
  }
  if (state >= 0) states_[whole].link = state_of(state, token);
  count(whole);
}

void SuffixAutomaton::forget_older_half() {
  const Tokens kept(tokens_.begin() + (most_ + 1) / 2, tokens_.end());
  tokens_.clear();
  states_ = {{}};
  last_ = 0;
  for (const Token token : kept) append(token);
}

int32_t SuffixAutomaton::add(State state) {
  states_.push_back(std::move(state));
  return int32_t(std::ssize(states_) - 1);
}

// The state whose longest substring is that of `state` and the token: the one that follows, or a
// part of it that gets a state of its own.
int32_t SuffixAutomaton::state_of(int32_t state, Token token) {
  const int32_t known = states_[state].next.at(token), length = states_[state].length + 1;
  if (states_[known].length == length) return known;
  State part = states_[known];
  part.length = length;
  const int32_t added = add(std::move(part));
  states_[known].link = added;
  for (; state >= 0; state = states_[state].link) {
    const auto found = states_[state].next.find(token);
    if (found == states_[state].next.end() || found->second != known) break;
    found->second = added;
  }
  return added;
}

// Counts an occurrence of what ends with the last token.
void SuffixAutomaton::count(int32_t state) {
  for (int i = 0; i < kCounted && state > 0; ++i, state = states_[state].link) {
    ++states_[state].count;
    states_[state].latest = int32_t(std::ssize(tokens_));
  }
}

std::optional<SuffixAutomaton::Continuation> SuffixAutomaton::best(int32_t state) const {
  const auto& next = states_[state].next;
  if (std::ssize(next) > kWidest) return std::nullopt;
  Continuation best{-1, 0, 0, 0};
  std::pair<int32_t, int32_t> most = {0, 0};
  for (const auto& [token, after] : next) {
    const std::pair<int32_t, int32_t> seen = {states_[after].count, states_[after].latest};
    best.total += seen.first;
    if (seen <= most) continue;
    most = seen;
    std::tie(best.token, best.times, best.after) = std::tuple(token, seen.first, after);
  }
  if (best.token < 0) return std::nullopt;
  return best;
}

}  // namespace edgespec
