"""A checkpoint of BART or a relative with everything that may be left out of its file."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from edgespec_export.checkpoint.weights import Weights

__all__ = ["LOGIT_BIAS", "PREFIX", "CompletedWeights", "position_table"]

PREFIX = "model."  # checkpoints without a head have names without it
LOGIT_BIAS = "final_logits_bias"

_STACKS = ("shared.", "encoder.", "decoder.")


def position_table(stack: str) -> str:
    """Name of the table of positions of the encoder or the decoder."""
    return f"{PREFIX}{stack}.embed_positions.weight"


class CompletedWeights:
    """The tensors by names that all have the prefix; the bias of the logits as a vector.

    Args:
        defaults: makes the tensors that a file may lack, by their names.
    """

    def __init__(
        self, weights: Weights, defaults: Mapping[str, Callable[[], npt.NDArray[np.float32]]]
    ) -> None:
        self._weights = weights
        self._stored = {
            PREFIX + name if name.startswith(_STACKS) else name: name for name in weights.names()
        }
        self._made = {name: make for name, make in defaults.items() if name not in self._stored}

    def names(self) -> list[str]:
        return sorted({*self._stored, *self._made})

    def shape(self, name: str) -> tuple[int, ...]:
        if name in self._made:
            return self._made[name]().shape
        shape = self._weights.shape(self._stored.get(name, name))
        return shape[1:] if name == LOGIT_BIAS else shape

    def read(self, name: str) -> npt.NDArray[np.generic]:
        if name in self._made:
            return self._made[name]()
        tensor = self._weights.read(self._stored.get(name, name))
        return tensor[0] if name == LOGIT_BIAS else tensor
