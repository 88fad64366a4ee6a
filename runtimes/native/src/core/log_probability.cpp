#include "core/log_probability.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace edgespec {

double log_probability(Row logits, Token token) {
  const double highest = *std::ranges::max_element(logits);
  double total = 0;
  for (const float logit : logits) total += std::exp(logit - highest);
  return logits[token] - highest - std::log(total);
}

double log_sum(Row logits, const SamplingTable& kernels) {
  const int64_t count = std::ssize(logits);
  if (count == 0) return -std::numeric_limits<double>::infinity();
  const float highest = logits[kernels.largest(logits.data(), count)];
  if (highest == -std::numeric_limits<float>::infinity()) return highest;
  std::vector<float> weights(count);
  return highest + std::log(kernels.weigh(logits.data(), count, highest, 1, weights.data()));
}

double log_probability(Row logits, Token token, const SamplingTable& kernels) {
  return logits[token] - log_sum(logits, kernels);
}

}  // namespace edgespec
