// Who chooses the γ of a text by the costs of its rounds.
#pragma once

#include <memory>

#include "core/controller.h"
#include "core/model.h"
#include "costs/adaptive.h"
#include "session/request.h"

namespace edgespec {

// A text's controller; where a model drafts with γ "auto", what ends its drafts is in it.
struct Gamma {
  std::unique_ptr<Controller> controller;
  const Confident* confident = nullptr;
};

class CostClock {
 public:
  virtual ~CostClock() = default;
  // Chooses a text's γ: the number that was asked for; or by the clock, where the text
  // does not depend on γ; else by guesses, which are the same each time. `draft`: null unless a
  // model drafts. Both models and the clock must outlive it.
  virtual Gamma gamma(const Request& request, const Model& target, const Model* draft) = 0;
};

}  // namespace edgespec
