"""Where the target's laws come from: its logits or, if greedy, the arg-max in its graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from edgespec.core.distribution import Distribution, Process, certain, is_greedy
from edgespec.core.model import Chooser, Chosen, Model, Sibling, branching_of
from edgespec.core.verification import Laws

__all__ = ["Score", "Scored", "chooser_of", "score_of"]


class Scored(Laws, Protocol):
    """The laws behind the positions of a call.

    Attributes:
        logits: that they were made from, [positions, vocabulary]; None if these were not computed.
    """

    logits: npt.NDArray[np.float32] | None


Score = Callable[[Sequence[int], Sequence[Sibling]], Scored]


def score_of(target: Model, process: Process, logits: bool) -> Score:
    """How a loop asks the target for the laws behind some tokens, which are appended to its cache,
    and behind their siblings, if it can score any.

    Args:
        logits: they are wanted themselves, too.
    """
    chooser = None if logits else chooser_of(target, process)
    if chooser is not None:
        return lambda tokens, siblings: _FromChosen(chooser.choose(tokens, siblings))
    if (branching := branching_of(target)) is not None:
        return lambda tokens, siblings: _FromLogits(branching.score(tokens, siblings), process)
    return lambda tokens, _: _FromLogits(target.score(tokens), process)


def chooser_of(model: Model, process: Process) -> Chooser | None:
    """The model, if of its logits only the arg-max is wanted and it is faster without them."""
    if is_greedy(process) and isinstance(model, Chooser) and model.chooses:
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


class _FromChosen:
    def __init__(self, chosen: Chosen) -> None:
        self.logits: npt.NDArray[np.float32] | None = None
        self._chosen = chosen

    def __getitem__(self, row: int) -> Distribution:
        return certain(self._chosen.tokens.item(row), self._chosen.logits.item(row))
