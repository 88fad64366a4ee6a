#include "session/round_clock.h"

#include <chrono>
#include <utility>

#include "costs/adaptive.h"

namespace edgespec {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

RoundClock::RoundClock(const Pair& pair)
    : CostClock(pair),
      verification_(*guessed(false).now()),
      lookup_(*guessed(false).now(), verification_, nullptr) {
  if (!pair.has_draft()) return;
  drafting_.emplace(*guessed(true).now(), *guessed(false).now());
  model_.emplace(*guessed(true).now(), verification_, &*drafting_);
}

CostSource& RoundClock::measured(bool with_model) { return with_model ? *model_ : lookup_; }

std::shared_ptr<Controller> RoundClock::timed(std::shared_ptr<Controller> controller,
                                              const Model& target, const Model* draft) {
  return std::make_shared<Timed>(
      std::move(controller), [&target] { return target.length(); }, verification_,
      draft ? &*drafting_ : nullptr, [draft] { return draft->seconds(); }, now);
}

}  // namespace edgespec
