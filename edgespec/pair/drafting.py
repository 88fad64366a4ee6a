"""Who drafts for a text, with which γ, and which rule decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial

from edgespec.core.decode import Loop, plain, speculate
from edgespec.core.distribution import Processor
from edgespec.core.draft import Drafter
from edgespec.core.model import Model
from edgespec.core.verification import RULES
from edgespec.costs.controller import Controller, controller, gamma_number
from edgespec.costs.cost_model import Costs
from edgespec.drafters.grammar_drafter import GrammarDrafter
from edgespec.drafters.matcher import Store
from edgespec.drafters.own_drafter import OwnDrafter
from edgespec.drafters.registry import DRAFTER_NAMES, DRAFTERS, DrafterSetup, own_costs
from edgespec.drafters.vocabulary_map import Vocabulary
from edgespec.errors import EdgespecError, UsageError, shortened
from edgespec.grammar.legal_tokens import ForcedTokens
from edgespec.pair.opening.profile import Profile
from edgespec.pair.round_clock import CostClock, RoundClock
from edgespec.scheduler.load_costs import CallTimes

__all__ = ["DraftChoice", "Drafting", "loop_of"]


@dataclass(frozen=True)
class DraftChoice:
    """Who drafts a text.

    Attributes:
        kind: the name of a drafter, or the caller's own; None decodes plainly.
        gamma: tokens drafted a round, or "auto".
        rule: name of the rule that decides the text's tokens; None if no rule has a say: nothing
            is verified, and the noise is not the coupled rule's.
        keeps_text: the text is the same whatever γ is, so γ "auto" may go by the clock.
    """

    kind: str | Drafter | None
    gamma: int | str
    rule: str | None
    keeps_text: bool

    @property
    def name(self) -> str:
        """For people: the drafter's name, "none", or the class of the caller's own."""
        if self.kind is None or isinstance(self.kind, str):
            return self.kind or "none"
        return type(self.kind).__name__

    @property
    def uses_model(self) -> bool:
        """Whether the pair's draft model may run."""
        return isinstance(self.kind, str) and DRAFTERS[self.kind].uses_model


class Drafting:
    """What drafts are made from for the texts of one cache.

    Args:
        target, draft: the models; the draft may be None.
        vocabulary: which of the target's tokens the draft has.
        costs: of rounds, by the name of the drafter, guessed or tuned.
        tuned: what `edgespec tune` found for these variants on this machine.
        exact: the target is row-invariant on this machine.
        allow_inexact: let it verify even if it is not.
        stores: texts in which lookup searches, in addition to the prompt and the text so far.
        exported: the numbers of drafted tokens that the target's graphs verify in one call, where
            their shapes are fixed; empty where any number is.

    Attributes:
        draft, vocabulary, costs, exact: the arguments.
        clock: times rounds for γ "auto"; None where `costs` alone decide.
        call_times: of calls that several texts share, kept from one group of texts to the next.
    """

    def __init__(
        self,
        target: Model,
        draft: Model | None,
        *,
        vocabulary: Vocabulary,
        costs: Mapping[str, Costs],
        tuned: Profile | None,
        exact: bool,
        allow_inexact: bool,
        stores: Sequence[Store] = (),
        exported: Sequence[int] = (),
    ) -> None:
        self._target = target
        self.draft = draft
        self.vocabulary = vocabulary
        self.costs = costs
        self.exact = exact
        self.clock: CostClock | None = RoundClock(costs, draft)
        self.call_times = CallTimes(costs)
        self._may_speculate = exact or allow_inexact
        self._tuned = tuned
        self._stores = stores
        self._exported = exported

    def with_models(self, target: Model, draft: Model | None, clock: CostClock) -> Drafting:
        """The same with the caches of another text; without a draft, prompt lookup drafts."""
        other = copy(self)
        other._target, other.draft, other.clock = target, draft, clock
        return other

    def use_costs(self, costs: Mapping[str, Costs]) -> None:
        """Lets γ "auto" go by these costs alone from now on, not by the clock."""
        self.costs = costs
        self.clock = None
        self.call_times = CallTimes(costs)

    def choice(
        self, draft: bool | str | Drafter, gamma: int | str | None, rule: str | None, greedy: bool
    ) -> DraftChoice:
        """Resolves what a caller asks for.

        Args:
            draft, gamma, rule: see `GenerationOptions`.
            greedy: the text is.

        Raises:
            UsageError: there is no such drafter or rule.
            EdgespecError: the target must not speculate on this machine.
        """
        kind = self._kind(draft, gamma)
        if gamma is None:
            gamma = self._tuned.gamma if self._tuned and draft is True else "auto"
        if self._exported and gamma != "auto" and gamma_number(gamma) > max(self._exported):
            raise UsageError(
                f"gamma is {gamma_number(gamma)}, and the pair was exported for "
                f"{', '.join(map(str, self._exported))}; take one of these, or export it again "
                f"with --gamma {gamma_number(gamma)}"
            )
        name = _rule_name(rule, kind, greedy)
        return DraftChoice(kind, gamma, name, self.exact and (greedy or name == "coupled"))

    def drafter(
        self,
        choice: DraftChoice,
        process: Processor,
        *,
        last_tokens: Sequence[int] = (),
        assistant_spans: Sequence[range] | None = None,
        legal: ForcedTokens | None = None,
        draft: Model | None = None,
    ) -> tuple[Drafter | None, Controller]:
        """The drafter of one text, None if it is decoded plainly, and the controller of its γ.

        Args:
            process: what makes logits a distribution.
            last_tokens: those that end the text.
            assistant_spans: of a prompt that is a conversation, see `Model.prefill`.
            legal: which tokens may come next; None if all may.
            draft: the draft model, if it is not the pair's as it is.

        Raises:
            UsageError: γ is out of range, or the pair has no draft model and the drafter needs one.
        """
        kind, gamma = choice.kind, choice.gamma
        without_model = self.costs["lookup"]
        if kind is None:
            return None, controller(gamma, without_model)  # for its check of γ
        clock = self.clock if choice.keeps_text and gamma == "auto" else None
        drafter: Drafter
        if isinstance(kind, str):
            setup = DrafterSetup(
                self._target,
                self.draft if draft is None else draft,
                self.vocabulary,
                process,
                gamma,
                clock.costs if clock else self.costs,
                last_tokens,
                assistant_spans,
                self._stores,
                legal,
            )
            drafter, gammas = DRAFTERS[kind].build(setup)
            gammas = clock.timed(kind, gammas, self._target) if clock else gammas
        else:
            drafter = OwnDrafter(kind, self._target.vocab_size)
            gammas = self._gammas_of_own(drafter, gamma, clock)
        if legal is None:
            return drafter, gammas
        longest = without_model.longest if gamma == "auto" else gamma_number(gamma)
        both = GrammarDrafter(legal, drafter, gammas, longest)
        return both, both

    def _gammas_of_own(
        self, drafter: Drafter, gamma: int | str, clock: CostClock | None
    ) -> Controller:
        """The controller of γ of a caller's own drafter."""
        if clock:
            return clock.timed_own(drafter, self._target)
        return controller(gamma, own_costs(drafter, self.costs["lookup"]))

    def _kind(self, draft: bool | str | Drafter, gamma: int | str | None) -> str | Drafter | None:
        """The name of a drafter, or the caller's own; None decodes plainly."""
        own = hasattr(draft, "propose")
        if not (own or isinstance(draft, bool) or draft in DRAFTER_NAMES):
            names = ", ".join(map(repr, DRAFTER_NAMES))
            raise UsageError(f"draft is {shortened(draft)}; give True, False, or one of: {names}")
        untuned = "both" if self.draft is not None else "lookup"
        usual = self._tuned.draft if self._tuned else untuned
        if draft is False or (draft is True and gamma in (None, "auto") and usual == "none"):
            return None
        if not self._may_speculate:
            raise EdgespecError(
                "this target is not row-invariant on this machine, so speculation might change "
                "its text; decode with --no-draft (draft=False), export another format, or load "
                "it with allow_inexact=True"
            )
        if not isinstance(draft, bool):
            return draft
        without_draft = self.draft is None and usual != "none"
        return untuned if usual == "none" or without_draft else usual


def loop_of(drafter: Drafter | None, gamma: Controller, rule: str | None) -> Callable[..., Loop]:
    """Plain decoding, or speculation with a drafter."""
    if drafter is None or rule is None:
        return plain
    return partial(speculate, draft=drafter, rule=RULES[rule], gamma=gamma)


def _rule_name(rule: str | None, kind: str | Drafter | None, greedy: bool) -> str | None:
    """The rule that decides the text's tokens; None if no rule has a say."""
    if rule is not None and rule not in RULES:
        raise UsageError(f"rule is {shortened(rule)}; give one of: {', '.join(RULES)}")
    name = rule or ("token" if greedy else "coupled")
    if kind is None and (greedy or name != "coupled"):
        return None
    return name
