"""The table of the drafters that users name.

A new one is its own module, with an entry here. Options of the command line, tuning, benchmarks,
profiles and `Pair` read this table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from edgespec.core.distribution import Processor
from edgespec.core.draft import Drafter
from edgespec.core.model import Model, block_model_of, candidate_model_of
from edgespec.costs.controller import Adaptive, Confident, Controller, Fixed, controller
from edgespec.costs.cost_model import Costs, CostSource
from edgespec.drafters.alternating import AlternatingDrafter
from edgespec.drafters.matcher import Store
from edgespec.drafters.model_drafter import Decision, ModelDrafter
from edgespec.drafters.suffix_lookup import SuffixLookup
from edgespec.drafters.vocabulary_map import Vocabulary
from edgespec.errors import UsageError, shortened
from edgespec.grammar.legal_tokens import LegalTokens

__all__ = [
    "DRAFTERS",
    "DRAFTER_NAMES",
    "OWN_DRAFT_COST",
    "DrafterSetup",
    "NamedDrafter",
    "available",
    "costs_by_name",
    "known_costs",
    "own_costs",
]

# Cost c of a caller's own drafter that does not say what a token costs, in steps of the target:
# more than most draft models cost, so that γ "auto" drafts with it only where it is often right.
OWN_DRAFT_COST = 0.3
# How probable lookup's first token must be: alone, and where the draft model would propose instead
# (docs/measurements/drafting.md).
MIN_PROBABILITY, MIN_PROBABILITY_BESIDE_MODEL = 0.2, 0.35


@dataclass(frozen=True)
class DrafterSetup:
    """What a drafter may be built from, for one text.

    Attributes:
        target: the model that verifies.
        draft: the draft model; None if the pair has none.
        vocabulary: which of the target's tokens the draft model has.
        process: what makes logits a distribution.
        gamma: tokens drafted a round, or "auto".
        costs: of rounds, by the name of the drafter.
        last_tokens: token ids that end the text.
        assistant_spans: of a prompt that is a conversation, see `Model.prefill`.
        stores: texts in which lookup searches, in addition to the prompt and the text so far.
        legal: which tokens may come next; None if all may.
    """

    target: Model
    draft: Model | None
    vocabulary: Vocabulary
    process: Processor
    gamma: int | str
    costs: Mapping[str, CostSource]
    last_tokens: Collection[int] = ()
    assistant_spans: Sequence[range] | None = None
    stores: Sequence[Store] = ()
    legal: LegalTokens | None = None


@dataclass(frozen=True)
class NamedDrafter:
    """A drafter that users name.

    One that runs no model must propose tokens that are certain (their q is one-hot): tuning
    predicts its acceptance by replaying texts.

    Attributes:
        name: what users call it.
        build: makes the drafter and the controller of its γ.
        cost: c of a drafted token in steps of the target; None is the draft model's.
        parts: names of the drafters that it alternates between; empty for a drafter that proposes
            itself. Costs are measured of those.
        tuned_with: the drafter that is timed with γ "auto" when this one is tuned.
    """

    name: str
    build: Callable[[DrafterSetup], tuple[Drafter, Controller]]
    cost: float | None
    parts: tuple[str, ...] = ()
    tuned_with: str = ""

    @property
    def uses_model(self) -> bool:
        """Whether it runs the pair's draft model."""
        return self.cost is None

    def costs(self, model_costs: Costs) -> Costs:
        """Costs of its rounds, from those of rounds with the draft model."""
        return model_costs if self.cost is None else replace(model_costs, draft=self.cost)


def _lookup(
    setup: DrafterSetup, at_least: float = MIN_PROBABILITY
) -> tuple[SuffixLookup, Fixed | Adaptive]:
    gammas = controller(setup.gamma, setup.costs["lookup"], Confident)
    worth = gammas.worth_candidate if isinstance(gammas, Confident) else None
    return SuffixLookup(setup.stores, worth, at_least), gammas


def _model(setup: DrafterSetup) -> tuple[ModelDrafter, Fixed | Adaptive]:
    if setup.draft is None:
        raise UsageError("the pair was exported without a draft model; use draft 'lookup'")
    gammas = controller(setup.gamma, setup.costs["model"], Confident)
    confident = gammas if isinstance(gammas, Confident) else None
    candidates = confident is not None and candidate_model_of(setup.target) is not None
    drafter = ModelDrafter(
        setup.draft,
        setup.process,
        setup.vocabulary,
        setup.last_tokens,
        should_continue=_should_continue(setup.draft, confident) if confident else None,
        worth_candidate=confident.worth_candidate if confident and candidates else None,
        assistant_spans=setup.assistant_spans,
        legal=setup.legal,
    )
    return drafter, gammas


def _should_continue(draft: Model, confident: Confident) -> Decision:
    """When to draft one more token. A block draft has computed it already and knows how probable
    it is, so it costs no more than a candidate."""
    return confident.should_continue if block_model_of(draft) is None else confident.worth_candidate


def _both(setup: DrafterSetup) -> tuple[Drafter, Controller]:
    alternating = AlternatingDrafter([_lookup(setup, MIN_PROBABILITY_BESIDE_MODEL), _model(setup)])
    return alternating, alternating


_ALL = (
    NamedDrafter("lookup", _lookup, cost=0.0, tuned_with="lookup"),
    NamedDrafter("model", _model, cost=None, tuned_with="both"),
    NamedDrafter("both", _both, cost=None, parts=("lookup", "model")),
)
DRAFTERS = {drafter.name: drafter for drafter in _ALL}
DRAFTER_NAMES = tuple(DRAFTERS)


def available(has_draft_model: bool) -> list[NamedDrafter]:
    """The drafters of a pair with or without a draft model."""
    return [named for named in _ALL if has_draft_model or not named.uses_model]


def costs_by_name(model_costs: Costs) -> dict[str, Costs]:
    """Costs of rounds with each drafter, from those of rounds with the draft model."""
    return {named.name: named.costs(model_costs) for named in _ALL if not named.parts}


def known_costs(timed: str, costs: Costs) -> dict[str, Costs]:
    """Costs by name where one drafter was timed: without the model, nothing is known about it.

    Args:
        timed: name of the drafter, or "none".
        costs: of its rounds.
    """
    named = DRAFTERS.get(timed)
    if named is None:
        return {}
    found = costs_by_name(costs)
    if named.uses_model:
        return found
    return {name: found[name] for name in found if not DRAFTERS[name].uses_model}


def own_costs(drafter: Drafter, costs: Costs) -> Costs:
    """Costs of rounds with a caller's own drafter.

    They come from its attribute `cost`, the time of one drafted token in steps of the target, or
    are `OWN_DRAFT_COST`, until its `seconds` tell more where γ "auto" may go by the clock.

    Args:
        costs: of rounds with a drafter that runs no model.

    Raises:
        UsageError: `cost` is no number from 0.
    """
    cost = getattr(drafter, "cost", OWN_DRAFT_COST)
    if not isinstance(cost, int | float) or not 0 <= cost < math.inf:
        raise UsageError(
            f"the drafter's cost is {shortened(cost)}; give the time of a drafted token in steps "
            "of the target, a number from 0"
        )
    return replace(costs, draft=float(cost))
