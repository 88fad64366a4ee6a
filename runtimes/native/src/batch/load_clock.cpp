#include "batch/load_clock.h"

#include "costs/adaptive.h"
#include "ort/ort_batch.h"

namespace edgespec {

LoadClock::LoadClock(const Pair& pair)
    : pair_(pair),
      load_{CallTimes(pair.guessed_costs(false, kSharedRows - 1),
                      pair.has_draft() ? pair.guessed_costs(true).draft() : 0)},
      guessed_lookup_(pair.guessed_costs(false)),
      lookup_(load_, pair.max_rows() - 1, false),
      model_(load_, pair.max_rows() - 1, true) {
  if (pair.has_draft()) guessed_model_.emplace(pair.guessed_costs(true));
}

Gamma LoadClock::gamma(const Request& request, const Model&, const Model* draft) {
  if (request.gamma != kGammaAuto) return {std::make_unique<Fixed>(request.gamma)};
  const bool by_clock = keeps_text(request, pair_);
  if (draft == nullptr) {
    if (!by_clock) return {std::make_unique<Adaptive>(guessed_lookup_)};
    return {after_first(std::make_unique<Adaptive>(lookup_))};
  }
  auto confident =
      by_clock ? std::make_unique<Confident>(model_) : std::make_unique<Confident>(*guessed_model_);
  const Confident* ends_drafts = confident.get();
  if (!by_clock) return {std::move(confident), ends_drafts};
  return {after_first(std::move(confident)), ends_drafts};
}

// An encoder reads a prompt apart from the first token.
std::unique_ptr<Controller> LoadClock::after_first(std::unique_ptr<Controller> controller) const {
  if (pair_.manifest().target.start_token) return controller;
  return std::make_unique<AfterFirst>(std::move(controller));
}

}  // namespace edgespec
