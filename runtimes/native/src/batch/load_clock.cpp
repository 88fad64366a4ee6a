#include "batch/load_clock.h"

#include <utility>

#include "ort/ort_batch.h"

namespace edgespec {

LoadClock::LoadClock(const Pair& pair)
    : CostClock(pair),
      has_encoder_(pair.manifest().target.start_token.has_value()),
      load_{CallTimes(pair.guessed_costs(false, kSharedRows - 1),
                      pair.has_draft() ? guessed(true).now()->draft() : 0)},
      lookup_(load_, pair.max_rows() - 1, false),
      model_(load_, pair.max_rows() - 1, true) {}

std::shared_ptr<Controller> LoadClock::timed(std::shared_ptr<Controller> controller, const Model&,
                                             const Model*) {
  // An encoder reads a prompt apart from the first token.
  if (has_encoder_) return controller;
  return std::make_shared<AfterFirst>(std::move(controller));
}

}  // namespace edgespec
