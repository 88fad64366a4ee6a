#include "session/cost_clock.h"

namespace edgespec {

CostClock::CostClock(const Pair& pair) : guessed_lookup_(pair.guessed_costs(false)) {
  if (pair.has_draft()) guessed_model_.emplace(pair.guessed_costs(true));
}

CostSource& CostClock::costs(bool with_model, bool by_clock) {
  return by_clock ? measured(with_model) : guessed(with_model);
}

}  // namespace edgespec
