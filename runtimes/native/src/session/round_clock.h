// The times of a session's rounds, kept from text to text, for γ "auto".
#pragma once

#include <memory>
#include <optional>

#include "costs/adaptive.h"
#include "costs/measured_costs.h"
#include "session/pair.h"
#include "session/request.h"

namespace edgespec {

class RoundClock {
 public:
  explicit RoundClock(const Pair& pair);
  RoundClock(const RoundClock&) = delete;

  // The controller of a text's γ: the number that was asked for; or by the clock, where the text
  // does not depend on γ; else by guesses, which are the same each time. `draft`: null unless a
  // model drafts. Both models and the clock must outlive it.
  std::unique_ptr<Controller> controller(const Request& request, const OrtModel& target,
                                         const OrtModel* draft);

 private:
  const Pair& pair_;
  FixedCosts lookup_;
  std::optional<FixedCosts> model_;
  VerificationTimes verification_;
  std::optional<DraftingTimes> drafting_;
  MeasuredCosts measured_lookup_;
  std::optional<MeasuredCosts> measured_model_;
};

}  // namespace edgespec
