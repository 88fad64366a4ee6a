// Where γ "auto" takes the costs of a text's rounds from.
#pragma once

#include <memory>
#include <optional>

#include "core/controller.h"
#include "core/model.h"
#include "costs/costs.h"
#include "session/pair.h"

namespace edgespec {

class CostClock {
 public:
  explicit CostClock(const Pair& pair);
  CostClock(const CostClock&) = delete;
  virtual ~CostClock() = default;

  // Costs of rounds with the draft model, or with prompt lookup. `by_clock`: what they take here,
  // for text that does not depend on γ; else guesses, which are the same each time.
  CostSource& costs(bool with_model, bool by_clock);
  // The controller of a text whose γ goes by the clock, perhaps with its rounds timed. `draft`:
  // null unless a model drafts. Both models and the clock must outlive it.
  virtual std::shared_ptr<Controller> timed(std::shared_ptr<Controller> controller,
                                            const Model& target, const Model* draft) = 0;

 protected:
  FixedCosts& guessed(bool with_model) { return with_model ? *guessed_model_ : guessed_lookup_; }
  virtual CostSource& measured(bool with_model) = 0;

 private:
  FixedCosts guessed_lookup_;
  std::optional<FixedCosts> guessed_model_;
};

}  // namespace edgespec
