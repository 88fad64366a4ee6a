// Log-probabilities of tokens, from rows of logits.
#pragma once

#include "core/model.h"

namespace edgespec {

// log p(token): log-softmax of a row, in double precision.
double log_probability(Row logits, Token token);

}  // namespace edgespec
