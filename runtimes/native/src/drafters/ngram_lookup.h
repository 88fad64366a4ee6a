// Drafts from the text itself: what followed the same n-gram earlier ("prompt lookup").
#pragma once

#include <array>
#include <map>

#include "core/draft.h"

namespace edgespec {

// Proposes what followed the latest n-gram earlier, in the prompt or in the text so far. Its tokens
// are determined, not drawn: their q is one-hot.
class NgramLookup : public Drafter {
 public:
  void begin(const Tokens& prompt) override;
  Requests<Proposal> propose(const Tokens& sequence, int64_t gamma,
                             Randomness& randomness) override;

 private:
  static constexpr std::array<int64_t, 2> kSizes = {3, 2};  // of n-grams, the longest first

  void add(Token token);
  // The last tokens of the text.
  Tokens latest(int64_t size) const;

  Tokens history_;                   // the prompt and the text
  int64_t read_ = 0;                 // tokens of the sequence that are in it
  std::map<Tokens, int64_t> after_;  // n-gram to the index after its latest use
};

}  // namespace edgespec
