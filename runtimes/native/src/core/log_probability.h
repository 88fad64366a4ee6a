// Log-probabilities of tokens, from rows of logits.
#pragma once

#include "core/model.h"
#include "kernels/sampling.h"

namespace edgespec {

// log p(token): log-softmax of a row, in double precision.
double log_probability(Row logits, Token token);

// log Σ e^logit, by the arithmetic that tokens are drawn with; -∞ if no token may come.
double log_sum(Row logits, const SamplingTable& kernels);
// log p(token) by it.
double log_probability(Row logits, Token token, const SamplingTable& kernels);

}  // namespace edgespec
