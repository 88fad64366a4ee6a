#include "drafters/ngram_lookup.h"

#include <algorithm>

namespace edgespec {

void NgramLookup::begin(const Tokens& prompt) {
  history_.clear();
  after_.clear();
  for (const Token token : prompt) add(token);
  read_ = 1;  // sequence[0] is the prompt's last token, or a start token that belongs to no text
}

Requests<Proposal> NgramLookup::propose(const Tokens& sequence, int64_t gamma, Randomness&) {
  for (; read_ < std::ssize(sequence); ++read_) add(sequence[read_]);
  Proposal proposal;
  for (const int64_t size : kSizes) {
    const auto found = after_.find(latest(size));
    if (found == after_.end()) continue;
    const int64_t end = std::min(found->second + gamma, std::ssize(history_));
    proposal.tokens.assign(history_.begin() + found->second, history_.begin() + end);
    for (const Token token : proposal.tokens) proposal.q.push_back(one_hot(token));
    break;
  }
  co_return proposal;
}

void NgramLookup::add(Token token) {
  // An n-gram is noted when a token follows it, so that the latest one finds an earlier use.
  for (const int64_t size : kSizes) {
    if (std::ssize(history_) >= size) after_[latest(size)] = std::ssize(history_);
  }
  history_.push_back(token);
}

Tokens NgramLookup::latest(int64_t size) const {
  return {history_.end() - std::min(size, std::ssize(history_)), history_.end()};
}

}  // namespace edgespec
