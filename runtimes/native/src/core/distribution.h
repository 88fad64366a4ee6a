// A distribution over tokens: the tokens that can occur, sorted, and their probabilities.
//
// Greedy decoding is a distribution that holds one token, so rules and loops need no greedy case.
// p is the target's distribution and q the draft's, everywhere in this library, as in Leviathan,
// Kalman and Matias (2022).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace edgespec {

using Token = int64_t;
using Tokens = std::vector<Token>;

// What is drawn from the row of a call that can have no distribution.
constexpr Token kRefused = -1;

// Probabilities of some tokens; every other token has probability 0.
struct Distribution {
  std::shared_ptr<const Tokens> tokens;  // strictly increasing: the support
  std::vector<float> probabilities;      // those of p and q sum to 1; a residual's need not
  std::string refusal;                   // why a row has no token; else empty

  int64_t size() const { return static_cast<int64_t>(probabilities.size()); }
  // The index of a token in the support, or -1.
  int64_t index_of(Token token) const;
  // The probability of a token; 0 outside the support.
  double of(Token token) const;
};

// The distribution of a token that is determined, not drawn: an arg-max, a looked-up token.
Distribution one_hot(Token token);

// What stands for the distribution of a row that cannot have one. Many rows of a call decide
// nothing, so its error is thrown where the text would go on with the row's token, nowhere else.
Distribution refused(const std::string& why);

// The distribution of greedy decoding. Throws RefusedLogitsError if the logit is infinite or NaN.
Distribution arg_max_distribution(Token token, float logit);

// Throws RefusedLogitsError if a row's largest logit is infinite or NaN.
void check_largest_logit(float logit);

}  // namespace edgespec
