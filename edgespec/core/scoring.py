"""Where the target's distributions come from: its logits or, if greedy, the arg-max in its graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from edgespec.core.distribution import Distribution, Process, certain, is_greedy
from edgespec.core.model import Candidate, Model, TopTokens, TopTokensModel, candidate_model_of
from edgespec.core.verification import TargetDistributions

__all__ = ["Score", "Scored", "score_of", "top_tokens_model_of"]


class Scored(TargetDistributions, Protocol):
    """The distributions behind the positions of a call.

    Attributes:
        logits: that they were made from, [positions, vocabulary]; None if these were not computed.
    """

    logits: npt.NDArray[np.float32] | None


Score = Callable[[Sequence[int], Sequence[Candidate]], Scored]


def score_of(target: Model, process: Process, logits: bool) -> Score:
    """How a loop asks the target for the distributions behind some tokens, which are appended to its cache,
    and behind their candidates, if it can score any.

    Args:
        logits: they are wanted themselves, too.
    """
    top_tokens_model = None if logits else top_tokens_model_of(target, process)
    if top_tokens_model is not None:
        return lambda tokens, candidates: _FromTopTokens(
            top_tokens_model.top_tokens(tokens, candidates)
        )
    if (candidate_model := candidate_model_of(target)) is not None:
        return lambda tokens, candidates: _FromLogits(
            candidate_model.score(tokens, candidates), process
        )
    return lambda tokens, _: _FromLogits(target.score(tokens), process)


def top_tokens_model_of(model: Model, process: Process) -> TopTokensModel | None:
    """The model, if of its logits only the arg-max is wanted and it is faster without them."""
    if is_greedy(process) and isinstance(model, TopTokensModel) and model.returns_top_tokens:
        return model
    return None


class _FromLogits:
    """Made one row at a time, when asked for."""

    def __init__(self, logits: npt.NDArray[Any], process: Process) -> None:
        self.logits: npt.NDArray[np.float32] | None = logits
        self._rows = logits
        self._process = process
        self._made: dict[int, Distribution] = {}

    def __getitem__(self, row: int) -> Distribution:
        if row not in self._made:
            self._made[row] = self._process(self._rows[row])
        return self._made[row]


class _FromTopTokens:
    def __init__(self, top: TopTokens) -> None:
        self.logits: npt.NDArray[np.float32] | None = None
        self._top_tokens = top

    def __getitem__(self, row: int) -> Distribution:
        return certain(self._top_tokens.tokens.item(row), self._top_tokens.logits.item(row))
