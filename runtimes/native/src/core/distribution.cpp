#include "core/distribution.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/shown.h"

namespace edgespec {

int64_t Distribution::index_of(Token token) const {
  const Tokens& support = *tokens;
  if (support.back() == size() - 1) return 0 <= token && token < size() ? token : -1;  // 0 … k - 1
  const auto found = std::ranges::lower_bound(support, token);
  return found != support.end() && *found == token ? found - support.begin() : -1;
}

double Distribution::of(Token token) const {
  const int64_t index = index_of(token);
  return index < 0 ? 0 : probabilities[index];
}

Distribution one_hot(Token token) { return {std::make_shared<const Tokens>(1, token), {1}, ""}; }

Distribution refused(const std::string& why) {
  Distribution none = one_hot(kRefused);
  none.refusal = why;
  return none;
}

Distribution arg_max_distribution(Token token, float logit) {
  check_largest_logit(logit);
  return one_hot(token);
}

void check_largest_logit(float logit) {
  if (std::isfinite(logit)) return;
  throw RefusedLogitsError(
      "the model returned " + shown(double(logit)) +
      " as its largest logit, so no token can be drawn; export it again with --verify, or "
      "use another format");
}

}  // namespace edgespec
