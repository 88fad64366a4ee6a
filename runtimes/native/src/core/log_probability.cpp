#include "core/log_probability.h"

#include <algorithm>
#include <cmath>

namespace edgespec {

double log_probability(Row logits, Token token) {
  const double highest = *std::ranges::max_element(logits);
  double total = 0;
  for (const float logit : logits) total += std::exp(logit - highest);
  return logits[token] - highest - std::log(total);
}

}  // namespace edgespec
