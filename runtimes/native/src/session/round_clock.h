// The times of a session's rounds, kept from text to text, for γ "auto".
#pragma once

#include <memory>
#include <optional>

#include "costs/adaptive.h"
#include "costs/measured_costs.h"
#include "session/pair.h"
#include "session/request.h"

namespace edgespec {

// A text's controller; where a model drafts with γ "auto", what ends its drafts is in it.
struct Gamma {
  std::unique_ptr<Controller> controller;
  const Confident* confident = nullptr;
};

class RoundClock {
 public:
  explicit RoundClock(const Pair& pair);
  RoundClock(const RoundClock&) = delete;

  // Chooses a text's γ: the number that was asked for; or by the clock, where the text
  // does not depend on γ; else by guesses, which are the same each time. `draft`: null unless a
  // model drafts. Both models and the clock must outlive it.
  Gamma gamma(const Request& request, const OrtModel& target, const OrtModel* draft);

 private:
  std::unique_ptr<Controller> timed(std::unique_ptr<Controller> controller, const OrtModel& target,
                                    const OrtModel* draft);

  const Pair& pair_;
  FixedCosts lookup_;
  std::optional<FixedCosts> model_;
  VerificationTimes verification_;
  std::optional<DraftingTimes> drafting_;
  MeasuredCosts measured_lookup_;
  std::optional<MeasuredCosts> measured_model_;
};

}  // namespace edgespec
