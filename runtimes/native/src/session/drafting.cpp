#include "session/drafting.h"

#include <utility>

#include "costs/adaptive.h"
#include "drafters/alternating.h"
#include "drafters/model_drafter.h"
#include "drafters/suffix_lookup.h"

namespace edgespec {
namespace {

// How probable lookup's first token must be: alone, and where the draft model would propose
// instead. edgespec/drafters/registry.py has the same table of drafters.
constexpr double kLeast = 0.2, kLeastBesideModel = 0.35;

using Part = AlternatingDrafter::Part;

bool goes_by_clock(const DraftingSetup& setup) {
  return setup.request.gamma == kGammaAuto && keeps_text(setup.request, setup.pair);
}

// What chooses γ where it is "auto"; else null.
std::shared_ptr<Confident> confident(const DraftingSetup& setup, bool with_model) {
  if (setup.request.gamma != kGammaAuto) return nullptr;
  return std::make_shared<Confident>(setup.clock.costs(with_model, goes_by_clock(setup)));
}

// Whether a row that costs no call of a draft model is worth its time.
Decision worth(const std::shared_ptr<Confident>& gamma) {
  return [gamma](double probability, int64_t rows) {
    return gamma->worth_candidate(probability, rows);
  };
}

Part part_of(const DraftingSetup& setup, std::shared_ptr<Drafter> drafter,
             std::shared_ptr<Judged> gamma) {
  if (gamma == nullptr) gamma = std::make_shared<Fixed>(setup.request.gamma);
  return {std::move(drafter), std::move(gamma)};
}

Part lookup(const DraftingSetup& setup, double at_least) {
  const auto gamma = confident(setup, false);
  const Decision decision = gamma != nullptr ? worth(gamma) : Decision();
  return part_of(setup, std::make_shared<SuffixLookup>(decision, at_least), gamma);
}

Part model(const DraftingSetup& setup) {
  const auto gamma = confident(setup, true);
  Decision should_continue, worth_candidate;
  if (gamma != nullptr && setup.draft->block()) {
    should_continue = worth(gamma);  // it has computed the next token already
  } else if (gamma != nullptr) {
    should_continue = [gamma](double probability, int64_t rows) {
      return gamma->should_continue(probability, rows);
    };
  }
  if (gamma != nullptr && setup.target.scores_candidates()) worth_candidate = worth(gamma);
  auto drafter = std::make_shared<ModelDrafter>(
      *setup.draft, setup.process, setup.pair.vocabulary(), setup.last_tokens,
      setup.request.answers, std::move(should_continue), std::move(worth_candidate));
  return part_of(setup, std::move(drafter), gamma);
}

Drafting alone(const Part& part) { return {part.drafter, part.gamma}; }

Drafting untimed(const DraftingSetup& setup) {
  switch (setup.request.draft) {
    case DraftName::kNone:
      return {};
    case DraftName::kModel:
      return alone(model(setup));
    case DraftName::kLookup:
      return alone(lookup(setup, kLeast));
    case DraftName::kBoth:
      break;
  }
  const auto both = std::make_shared<AlternatingDrafter>(
      std::vector<Part>{lookup(setup, kLeastBesideModel), model(setup)});
  return {both, both};
}

}  // namespace

Drafting drafting_of(const DraftingSetup& setup) {
  Drafting drafting = untimed(setup);
  if (drafting.gamma && goes_by_clock(setup)) {
    drafting.gamma = setup.clock.timed(std::move(drafting.gamma), setup.target, setup.draft);
  }
  return drafting;
}

}  // namespace edgespec
