// The mathematics of verification: acceptance probability, residual, the token, block and coupled
// rules.
//
// The draft proposed x_1 … x_γ with x_i ~ q_i. The target gives p_1 … p_{γ+1}, where p_i is its
// distribution at the position of x_i. A rule decides how many proposed tokens are accepted and
// which distribution the next token is drawn from. With every rule the output has exactly the
// target's distribution.
#pragma once

#include <string_view>

#include "core/distribution.h"
#include "core/draft.h"
#include "core/randomness.h"
#include "kernels/sampling.h"

namespace edgespec {

// How many proposed tokens are accepted, and the distribution of the token after them.
struct VerificationResult {
  int64_t accepted;
  int64_t evaluated;  // the accepted tokens and the first rejected one
  Distribution next;  // of the correction or of the bonus token
};

// p_1 … p_{γ+1}, each computed when it is asked for: after a rejection, no later one is.
class TargetDistributions {
 public:
  virtual ~TargetDistributions() = default;
  virtual const Distribution& at(int64_t row) = 0;
};

using Rule = VerificationResult (*)(const Proposal&, TargetDistributions&, Randomness&,
                                    const SamplingTable&);

// Leviathan et al. (2022), Algorithm 1: accept x_i with probability min(1, p_i(x_i) / q_i(x_i)).
//
// The first rejected token is replaced by one from the residual. If none is rejected, the next
// token is a bonus from p_{γ+1}.
VerificationResult token_rule(const Proposal&, TargetDistributions&, Randomness&,
                              const SamplingTable&);

// Sun et al. (2024, arXiv 2403.10444), block verification: never fewer tokens in expectation.
//
// w_0 = 1 and w_i = min(w_{i-1} · p_i(x_i) / q_i(x_i), 1). The accepted length is the largest i
// whose own draw η_i is below h_i, where h_γ = w_γ and, for i < γ, h_i = Z_i / (Z_i + 1 - w_i) with
// Z_i = Σ_x max(0, w_i · p_{i+1}(x) - q_{i+1}(x)). The draws are independent, so they are made from
// the last to the first and stop at a success. 1 - w_i is computed first, so that h_i is exactly 1,
// and nothing is drawn, where w_i is. From a w_i of 0 on all are, and no later row is looked at.
VerificationResult block_rule(const Proposal&, TargetDistributions&, Randomness&,
                              const SamplingTable&);

// Daliri, Musco and Suresh (2024, arXiv 2408.07978): accept what the target chooses, too.
//
// The target's own choice at each position is made by the noise of that position (`Coupled`), so
// the text is plain decoding's, token by token, whatever was drafted. q is not looked at. The first
// choice that differs is the correction.
VerificationResult coupled_rule(const Proposal&, TargetDistributions&, Randomness&,
                                const SamplingTable&);

}  // namespace edgespec
