// What the loop asks of a drafter, and what a drafter proposes.
//
// A drafter changes how fast a text comes, never the text's distribution, as long as it reports the
// distribution that each of its tokens was drawn from. (The coupled rule does not look at it.)
#pragma once

#include <functional>
#include <vector>

#include "core/archive.h"
#include "core/distribution.h"
#include "core/randomness.h"
#include "core/requests.h"

namespace edgespec {

// γ drafted tokens, and for each the distribution that it was drawn from: one-hot for a token that
// was determined. Verifying with any other q is not exact.
struct Proposal {
  Tokens tokens;
  std::vector<Distribution> q;
  // Alternatives to drafted tokens. No rule looks at them. If the token that replaces a rejected
  // one is a candidate, its row has been scored already.
  std::vector<Candidate> candidates = {};
};

// Says yes or no, given a probability and the number of positions in the verification.
using Decision = std::function<bool(double probability, int64_t rows)>;

// Proposes tokens.
class Drafter {
 public:
  virtual ~Drafter() = default;
  // Starts a new text; `prompt` holds token ids of the target.
  virtual void begin(const Tokens& prompt) = 0;
  // Proposes at most `gamma` tokens to follow `sequence`: the pending token and all tokens emitted
  // since `begin`. Every random draw comes from `randomness`, a token's with the number of tokens
  // proposed before it.
  virtual Requests<Proposal> propose(const Tokens& sequence, int64_t gamma,
                                     Randomness& randomness) = 0;
  // What it has of a text, besides its model's cache. To read it, begin with the text's prompt.
  virtual void archive(Archive&, const Tokens& /*sequence*/) {}
};

}  // namespace edgespec
