"""The target's distributions for a call: from its logits, or from its top tokens if greedy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from edgespec.core.array_types import AnyArray, LogitRows
from edgespec.core.asks import Asking, scored, top_scored
from edgespec.core.distribution import Distribution, Processor, arg_max_distribution
from edgespec.core.logit_edits import LogitEdit, Mask
from edgespec.core.model import Candidate, Model, TopTokens, TopTokensModel
from edgespec.core.sampling import is_greedy
from edgespec.core.verification import TargetDistributions

__all__ = ["ScoreCall", "ScoredCall", "score_of", "top_tokens_model_of"]


@runtime_checkable
class ScoredCall(TargetDistributions, Protocol):
    """The target's distribution after each row of a call.

    Attributes:
        logits: [rows, vocabulary], that the distributions are made from; None if not computed.
    """

    logits: LogitRows | None


# The pending token and all emitted after it, the drafted tokens after these, and their candidates.
ScoreCall = Callable[[Sequence[int], Sequence[int], Sequence[Candidate]], Asking[ScoredCall]]


def score_of(
    target: Model, process: Processor, logits: bool, edit: LogitEdit | None = None
) -> ScoreCall:
    """A function that asks for a text's last token and drafted tokens to be appended to the
    target's cache, and returns the distributions after them and after their candidates.

    Args:
        logits: whether the caller needs the logits themselves too.
        edit: changes each row by the generated tokens before it; the logits themselves stay.
    """

    def score(
        text: Sequence[int], drafted: Sequence[int], candidates: Sequence[Candidate]
    ) -> Asking[ScoredCall]:
        rows = yield from scored(target, [text[-1], *drafted], candidates)
        if edit is None:
            return _FromLogits(rows, lambda row: process(rows[row]))
        changed = edit
        return _FromLogits(
            rows, lambda row: process(changed(rows[row], _before(row, text, drafted, candidates)))
        )

    mask = edit if isinstance(edit, Mask) else None
    top = top_tokens_model_of(target, process)
    if top is None or logits or edit is not mask:
        return score
    top_model = top

    def top_score(
        text: Sequence[int], drafted: Sequence[int], candidates: Sequence[Candidate]
    ) -> Asking[ScoredCall]:
        start = target.length
        found = yield from top_scored(top_model, [text[-1], *drafted], candidates)
        best: Sequence[int] = found.tokens[:, 0].tolist()
        if mask is None or _keeps_best(mask, best, text, drafted, candidates):
            return _FromTopTokens(found)
        target.rewind(start)
        return (yield from score(text, drafted, candidates))

    return top_score


def _keeps_best(
    mask: Mask,
    best: Sequence[int],
    text: Sequence[int],
    drafted: Sequence[int],
    candidates: Sequence[Candidate],
) -> bool:
    """Whether a mask leaves the arg-max of each row that decides about the text: those up to the
    first drafted token that is not the arg-max before it, and that of a candidate in its stead."""
    row = 0
    while mask.keeps(best[row], _before(row, text, drafted, candidates)):
        if row < len(drafted) and drafted[row] == best[row]:
            row += 1
            continue
        correction = Candidate(row, best[row])
        if row > len(drafted) or correction not in candidates:
            return True
        row = 1 + len(drafted) + candidates.index(correction)
    return False


def _before(
    row: int, text: Sequence[int], drafted: Sequence[int], candidates: Sequence[Candidate]
) -> Sequence[int]:
    """The generated tokens that a row of a call follows; the first pending token is no such."""
    if row <= len(drafted):
        return [*text[1:], *drafted[:row]]
    candidate = candidates[row - 1 - len(drafted)]
    return [*text[1:], *drafted[: candidate.parent], candidate.token]


def top_tokens_model_of(model: Model, process: Processor) -> TopTokensModel | None:
    """The model, if only the arg-max of its logits is needed and it can return that alone."""
    if is_greedy(process) and isinstance(model, TopTokensModel) and model.returns_top_tokens:
        return model
    return None


class _FromLogits:
    """Distributions made from logits, one row at a time, when asked for."""

    def __init__(self, logits: AnyArray, distribution: Callable[[int], Distribution]) -> None:
        self.logits: LogitRows | None = logits
        self._distribution = distribution
        self._made: dict[int, Distribution] = {}

    def __getitem__(self, row: int) -> Distribution:
        if row not in self._made:
            self._made[row] = self._distribution(row)
        return self._made[row]


class _FromTopTokens:
    """One-hot distributions of a greedy call that returned no logits."""

    def __init__(self, top: TopTokens) -> None:
        self.logits: LogitRows | None = None
        self._top = top

    def __getitem__(self, row: int) -> Distribution:
        return arg_max_distribution(self._top.tokens.item(row), self._top.logits.item(row))
