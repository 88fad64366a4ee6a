"""The target's distributions for a call: from its logits, or from its top tokens if greedy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, cast, runtime_checkable

from edgespec.core.array_types import AnyArray, LogitRows
from edgespec.core.distribution import Distribution, Processor, arg_max_distribution, refused
from edgespec.core.logit_edits import LogitEdit, Mask
from edgespec.core.model import Candidate, Model, TopTokens, TopTokensModel
from edgespec.core.requests import Requests, request_logits, request_top_tokens
from edgespec.core.sampling import is_greedy
from edgespec.core.verification import TargetDistributions
from edgespec.core.vocab_ops import vocab_ops_for
from edgespec.errors import EdgespecError

__all__ = ["ScoreCall", "ScoredCall", "score_of", "top_tokens_model_of"]


@runtime_checkable
class ScoredCall(TargetDistributions, Protocol):
    """The target's distribution after each row of a call.

    Attributes:
        logits: [rows, vocabulary], that the distributions are made from; None if not computed.
    """

    logits: LogitRows | None


PATIENCE = 4  # calls whose arg-max a mask must keep before the arg-max alone is asked for again

# The pending token and all emitted after it, the drafted tokens after these, and their candidates.
ScoreCall = Callable[[Sequence[int], Sequence[int], Sequence[Candidate]], Requests[ScoredCall]]


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
        sequence: Sequence[int], drafted: Sequence[int], candidates: Sequence[Candidate]
    ) -> Requests[ScoredCall]:
        rows = yield from request_logits(target, [sequence[-1], *drafted], candidates)
        if edit is None:
            return _FromLogits(rows, lambda row: process(rows[row]))
        changed = edit
        return _FromLogits(
            rows,
            lambda row: process(changed(rows[row], _before(row, sequence, drafted, candidates))),
        )

    top = None if logits else top_tokens_model_of(target, process)
    if top is None or not (edit is None or isinstance(edit, Mask)):
        return score
    if edit is not None:
        return _Masked(target, top, process, edit)
    top_model = top

    def top_score(
        sequence: Sequence[int], drafted: Sequence[int], candidates: Sequence[Candidate]
    ) -> Requests[ScoredCall]:
        return _FromTopTokens(
            (yield from request_top_tokens(top_model, [sequence[-1], *drafted], candidates))
        )

    return top_score


class _Masked:
    """A `ScoreCall` for greedy decoding with a mask, of a target that can return the arg-max alone.

    It asks for the arg-max, and again for whole rows where the mask removes it. A text that the
    mask often changes is asked about once: for whole rows, until the arg-max was legal for a while.
    The distributions are the same.
    """

    def __init__(self, target: Model, top: TopTokensModel, process: Processor, mask: Mask) -> None:
        self._target = target
        self._top = top
        self._process = process
        self._mask = mask
        # Calls since the mask last removed an arg-max. It often removes that of a text's first row.
        self._kept = PATIENCE - 1

    def __call__(
        self, sequence: Sequence[int], drafted: Sequence[int], candidates: Sequence[Candidate]
    ) -> Requests[ScoredCall]:
        tokens = [sequence[-1], *drafted]
        if self._kept >= PATIENCE:
            start = self._target.length
            found = yield from request_top_tokens(self._top, tokens, candidates)
            best: Sequence[int] = found.tokens[:, 0].tolist()
            if _keeps_best(self._mask, best, sequence, drafted, candidates):
                return _FromTopTokens(found)
            self._target.rewind(start)
        rows = yield from request_logits(self._target, tokens, candidates)
        self._kept += 1

        def distribution(row: int) -> Distribution:
            logits, before = rows[row], _before(row, sequence, drafted, candidates)
            best = vocab_ops_for(logits).arg_max(logits)
            if self._mask.keeps(best, before):
                return arg_max_distribution(best, float(logits[best]))
            self._kept = 0
            return self._process(self._mask(logits, before))

        return _FromLogits(rows, distribution)


def _keeps_best(
    mask: Mask,
    best: Sequence[int],
    sequence: Sequence[int],
    drafted: Sequence[int],
    candidates: Sequence[Candidate],
) -> bool:
    """Whether a mask leaves the arg-max of each row that decides about the text: those up to the
    first drafted token that is not the arg-max before it, and that of a candidate in its stead.

    A mask that cannot say is asked again where the row is needed."""
    row = 0
    while _keeps(mask, best[row], _before(row, sequence, drafted, candidates)):
        if row < len(drafted) and drafted[row] == best[row]:
            row += 1
            continue
        correction = Candidate(row, best[row])
        if row > len(drafted) or correction not in candidates:
            return True
        row = 1 + len(drafted) + candidates.index(correction)
    return False


def _keeps(mask: Mask, token: int, generated: Sequence[int]) -> bool:
    try:
        return mask.keeps(token, generated)
    except EdgespecError:
        return False


def _before(
    row: int, sequence: Sequence[int], drafted: Sequence[int], candidates: Sequence[Candidate]
) -> Sequence[int]:
    """The generated tokens that a row of a call follows; the first pending token is not
    generated."""
    if row <= len(drafted):
        return [*sequence[1:], *drafted[:row]]
    candidate = candidates[row - 1 - len(drafted)]
    return [*sequence[1:], *drafted[: candidate.parent], candidate.token]


def top_tokens_model_of(model: Model, process: Processor) -> TopTokensModel | None:
    """The model, if only the arg-max of its logits is needed and it can return that alone."""
    if is_greedy(process) and getattr(model, "returns_top_tokens", False):
        return cast(TopTokensModel, model)
    return None


class _FromLogits:
    """Distributions made from logits, one row at a time, when asked for; see `RefusedRow`."""

    def __init__(self, logits: AnyArray, distribution: Callable[[int], Distribution]) -> None:
        self.logits: LogitRows | None = logits
        self._distribution = distribution
        self._made: dict[int, Distribution] = {}

    def __getitem__(self, row: int) -> Distribution:
        if row not in self._made:
            try:
                self._made[row] = self._distribution(row)
            except EdgespecError as error:
                self._made[row] = refused(error)
        return self._made[row]


class _FromTopTokens:
    """One-hot distributions of a greedy call that returned no logits."""

    def __init__(self, top: TopTokens) -> None:
        self.logits: LogitRows | None = None
        self._top = top

    def __getitem__(self, row: int) -> Distribution:
        try:
            return arg_max_distribution(self._top.tokens.item(row), self._top.logits.item(row))
        except EdgespecError as error:
            return refused(error)
