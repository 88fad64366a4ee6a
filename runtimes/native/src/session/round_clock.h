// The times of a session's rounds, kept from text to text, for γ "auto".
#pragma once

#include <memory>
#include <optional>

#include "costs/measured_costs.h"
#include "session/cost_clock.h"

namespace edgespec {

class RoundClock : public CostClock {
 public:
  explicit RoundClock(const Pair& pair);

  std::shared_ptr<Controller> timed(std::shared_ptr<Controller> controller, const Model& target,
                                    const Model* draft) override;

 protected:
  CostSource& measured(bool with_model) override;

 private:
  VerificationTimes verification_;
  std::optional<DraftingTimes> drafting_;
  MeasuredCosts lookup_;
  std::optional<MeasuredCosts> model_;
};

}  // namespace edgespec
