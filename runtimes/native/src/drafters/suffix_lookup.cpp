#include "drafters/suffix_lookup.h"

#include <algorithm>
#include <cmath>

namespace edgespec {
namespace {

constexpr int64_t kMostTokens = 32'768;  // of prompt and text that are looked up
constexpr int kCompared = 3;             // suffixes that are compared, the longest first
// This many other tokens are counted that were never seen: after a match of one token three, after
// longer ones, up to 64 tokens, fewer.
constexpr double kMisses = 3;
constexpr int64_t kLongest = 64;

// An estimate of the probability that the text goes on as it did after the same `length` tokens.
double chance(int64_t length, const SuffixAutomaton::Continuation& found) {
  const double misses = kMisses / std::pow(double(std::min(length, kLongest)), 1.5);
  return double(found.times) / (double(found.total) + misses);
}

}  // namespace

void SuffixLookup::begin(const Tokens& prompt) {
  text_.emplace(kMostTokens);
  const int64_t unread = std::max<int64_t>(0, std::ssize(prompt) - kMostTokens);
  for (const Token token : std::span(prompt).subspan(unread)) text_->append(token);
  read_ = 1;  // sequence[0] is the prompt's last token, or a start token that belongs to no text
}

Requests<Proposal> SuffixLookup::propose(const Tokens& sequence, int64_t gamma, Randomness&) {
  for (; read_ < std::ssize(sequence); ++read_) text_->append(sequence[read_]);
  Proposal proposal;
  const auto option = likeliest();
  if (option && option->probability >= at_least_) proposal.tokens = path(*option, gamma);
  for (const Token token : proposal.tokens) proposal.q.push_back(one_hot(token));
  co_return proposal;
}

std::optional<SuffixLookup::Option> SuffixLookup::likeliest() const {
  std::optional<Option> best;
  auto suffix = text_->longest_suffix();
  for (int i = 0; i < kCompared && suffix.state > 0; ++i, suffix = text_->shorter(suffix)) {
    const auto found = text_->best(suffix.state);
    if (!found) continue;
    const double probability = chance(suffix.length, *found);
    if (!best || probability > best->probability) best = {probability, suffix.length, *found};
  }
  return best;
}

// The tokens that follow most frequently, one after the other.
Tokens SuffixLookup::path(const Option& option, int64_t gamma) const {
  Tokens tokens;
  double probability = 1;  // that all of them are accepted
  std::optional<Continuation> found = option.found;
  while (found && std::ssize(tokens) < gamma) {
    probability *= chance(option.length + std::ssize(tokens), *found);
    if (worth_ && !worth_(probability, 1 + std::ssize(tokens))) break;
    tokens.push_back(found->token);
    found = text_->best(found->after);
  }
  return tokens;
}

}  // namespace edgespec
