// Who drafts for a text, and with which γ.
#pragma once

#include <memory>

#include "core/controller.h"
#include "core/draft.h"
#include "core/sampling.h"
#include "session/cost_clock.h"
#include "session/request.h"

namespace edgespec {

// A text's drafter and the controller of its γ; none of either where it is decoded plainly.
struct Drafting {
  std::shared_ptr<Drafter> drafter;
  std::shared_ptr<Controller> gamma;
};

// What a drafter is made from; all that is referred to must outlive it.
struct DraftingSetup {
  const Request& request;
  const Pair& pair;
  Model& target;
  Model* draft;  // null where no model drafts
  SamplingProcessor& process;
  Tokens last_tokens;  // end the text
  CostClock& clock;
};

Drafting drafting_of(const DraftingSetup& setup);

}  // namespace edgespec
