"""The target's distributions for a call: from its logits, or from its top tokens if greedy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from edgespec.core.array_types import AnyArray, LogitRows
from edgespec.core.distribution import Distribution, Processor, arg_max_distribution
from edgespec.core.model import Candidate, Model, TopTokens, TopTokensModel, candidate_model_of
from edgespec.core.sampling import is_greedy
from edgespec.core.verification import TargetDistributions

__all__ = ["Score", "ScoredCall", "score_of", "top_tokens_model_of"]


@runtime_checkable
class ScoredCall(TargetDistributions, Protocol):
    """The target's distribution after each row of a call.

    Attributes:
        logits: [rows, vocabulary], that the distributions are made from; None if not computed.
    """

    logits: LogitRows | None


Score = Callable[[Sequence[int], Sequence[Candidate]], ScoredCall]


def score_of(target: Model, process: Processor, logits: bool) -> Score:
    """A function that appends tokens to the target's cache and returns the distributions after
    them and after their candidates.

    Args:
        logits: whether the caller needs the logits themselves too.
    """
    top = None if logits else top_tokens_model_of(target, process)
    if top is not None:
        return lambda tokens, candidates: _FromTopTokens(top.top_tokens(tokens, candidates))
    if (model := candidate_model_of(target)) is not None:
        return lambda tokens, candidates: _FromLogits(model.score(tokens, candidates), process)
    return lambda tokens, _: _FromLogits(target.score(tokens), process)


def top_tokens_model_of(model: Model, process: Processor) -> TopTokensModel | None:
    """The model, if only the arg-max of its logits is needed and it can return that alone."""
    if is_greedy(process) and isinstance(model, TopTokensModel) and model.returns_top_tokens:
        return model
    return None


class _FromLogits:
    """Distributions made from logits, one row at a time, when asked for."""

    def __init__(self, logits: AnyArray, process: Processor) -> None:
        self.logits: LogitRows | None = logits
        self._rows = logits
        self._process = process
        self._made: dict[int, Distribution] = {}

    def __getitem__(self, row: int) -> Distribution:
        if row not in self._made:
            self._made[row] = self._process(self._rows[row])
        return self._made[row]


class _FromTopTokens:
    """One-hot distributions of a greedy call that returned no logits."""

    def __init__(self, top: TopTokens) -> None:
        self.logits: LogitRows | None = None
        self._top = top

    def __getitem__(self, row: int) -> Distribution:
        return arg_max_distribution(self._top.tokens.item(row), self._top.logits.item(row))
