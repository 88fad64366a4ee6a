// The times of a session's rounds, kept from text to text, for γ "auto".
#pragma once

#include <memory>
#include <optional>

#include "costs/adaptive.h"
#include "costs/measured_costs.h"
#include "session/cost_clock.h"
#include "session/pair.h"

namespace edgespec {

class RoundClock : public CostClock {
 public:
  explicit RoundClock(const Pair& pair);
  RoundClock(const RoundClock&) = delete;

  Gamma gamma(const Request& request, const Model& target, const Model* draft) override;

 private:
  std::unique_ptr<Controller> timed(std::unique_ptr<Controller> controller, const Model& target,
                                    const Model* draft);

  const Pair& pair_;
  FixedCosts lookup_;
  std::optional<FixedCosts> model_;
  VerificationTimes verification_;
  std::optional<DraftingTimes> drafting_;
  MeasuredCosts measured_lookup_;
  std::optional<MeasuredCosts> measured_model_;
};

}  // namespace edgespec
