#include "session/round_clock.h"

#include <chrono>
#include <utility>

namespace edgespec {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

RoundClock::RoundClock(const Pair& pair)
    : pair_(pair),
      lookup_(pair.guessed_costs(false)),
      verification_(*lookup_.now()),
      measured_lookup_(*lookup_.now(), verification_, nullptr) {
  if (!pair.has_draft()) return;
  model_.emplace(pair.guessed_costs(true));
  drafting_.emplace(*model_->now(), *lookup_.now());
  measured_model_.emplace(*model_->now(), verification_, &*drafting_);
}

Gamma RoundClock::gamma(const Request& request, const Model& target, const Model* draft) {
  if (request.gamma != kGammaAuto) return {std::make_unique<Fixed>(request.gamma)};
  const bool by_clock = keeps_text(request, pair_);
  if (draft == nullptr) {
    if (!by_clock) return {std::make_unique<Adaptive>(lookup_)};
    return {timed(std::make_unique<Adaptive>(measured_lookup_), target, nullptr)};
  }
  auto confident = by_clock ? std::make_unique<Confident>(*measured_model_)
                            : std::make_unique<Confident>(*model_);
  const Confident* ends_drafts = confident.get();
  if (!by_clock) return {std::move(confident), ends_drafts};
  return {timed(std::move(confident), target, draft), ends_drafts};
}

std::unique_ptr<Controller> RoundClock::timed(std::unique_ptr<Controller> controller,
                                              const Model& target, const Model* draft) {
  return std::make_unique<Timed>(
      std::move(controller), [&target] { return target.length(); }, verification_,
      draft ? &*drafting_ : nullptr, [draft] { return draft->seconds(); }, now);
}

}  // namespace edgespec
