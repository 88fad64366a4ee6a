// Drafts from the text itself: what followed the same tokens earlier, as long as that is likely
// enough ("prompt lookup").
#pragma once

#include <optional>

#include "core/draft.h"
#include "drafters/suffix_automaton.h"

namespace edgespec {

// Proposes what followed the text's last tokens earlier, in its prompt or in itself.
//
// After Oliaro et al. (2024), SuffixDecoding, arXiv 2411.04975. Of the longest suffixes that
// occurred before, the one with the most certain continuation is taken, and continued by the most
// frequent tokens. Its tokens are determined, not drawn: their q is one-hot.
class SuffixLookup : public Drafter {
 public:
  // `worth`: given the probability that a token is accepted, with all before it, and the number of
  // positions in the verification without it, says whether to propose it. Empty: γ tokens.
  // `at_least`: the probability of the first token; where it is less, nothing is proposed.
  SuffixLookup(Decision worth, double at_least) : worth_(std::move(worth)), at_least_(at_least) {}

  void begin(const Tokens& prompt) override;
  Requests<Proposal> propose(const Tokens& sequence, int64_t gamma,
                             Randomness& randomness) override;

 private:
  using Continuation = SuffixAutomaton::Continuation;

  // How the text may go on.
  struct Option {
    double probability;  // of the token
    int64_t length;      // tokens of the match
    Continuation found;
  };

  std::optional<Option> likeliest() const;
  Tokens path(const Option& option, int64_t gamma) const;

  Decision worth_;
  double at_least_;
  std::optional<SuffixAutomaton> text_;  // the prompt and the text
  int64_t read_ = 0;                     // tokens of the sequence that are in it
};

}  // namespace edgespec
