"""What a LoRA changes in one tensor of its model.

A matrix W [out, in] becomes W + scale · B · A, with A [rank, in] and B [out, rank] (Hu et al.,
2021, arXiv 2106.09685). With DoRA the rows of that get the lengths in a vector (Liu et al., 2024,
arXiv 2402.09353). All of it is computed in float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from edgespec_export.checkpoint.weights import Weights

__all__ = ["Change", "LowRank", "Replaced", "Shifted"]

Float = npt.NDArray[np.float32]


class Change(Protocol):
    """A change of a tensor."""

    def applied(self, rows: Float, start: int, stop: int) -> Float:
        """Rows start to stop of the changed tensor, from those of the model's own."""
        ...


@dataclass(frozen=True)
class Replaced:
    """A tensor that was trained as a whole, and what else changes it."""

    adapter: Weights
    name: str
    then: Change | None = None

    def applied(self, rows: Float, start: int, stop: int) -> Float:
        own = self.adapter.read(self.name)[start:stop].astype(np.float32)
        return own if self.then is None else self.then.applied(own, start, stop)


@dataclass(frozen=True)
class Shifted:
    """A bias that something is added to."""

    adapter: Weights
    name: str
    scale: float

    def applied(self, rows: Float, start: int, stop: int) -> Float:
        added = self.adapter.read(self.name)[start:stop].astype(np.float32)
        return np.asarray(rows + added * np.float32(self.scale), np.float32)


@dataclass(frozen=True)
class LowRank:
    """A matrix that a product of two is added to.

    Attributes:
        a, b: names of A and B.
        scale: of their product.
        transposed: the model stores the matrix as [in, out], as it does an embedding.
        lengths: name of DoRA's vector [out]; None without DoRA. Where the matrix is transposed,
            all rows must be asked for at once then.
    """

    adapter: Weights
    a: str
    b: str
    scale: float
    transposed: bool = False
    lengths: str | None = None

    def applied(self, rows: Float, start: int, stop: int) -> Float:
        first, second = (self.adapter.read(name).astype(np.float32) for name in (self.b, self.a))
        if self.transposed:
            first, second = second.T, first.T
        added = (first[start:stop] @ second) * np.float32(self.scale)
        changed = np.asarray(rows + added, np.float32)
        if self.lengths is None:
            return changed
        lengths = self.adapter.read(self.lengths).astype(np.float32).reshape(-1)
        if self.transposed:
            scales = lengths / np.linalg.norm(changed, axis=0)
        else:
            scales = (lengths[start:stop] / np.linalg.norm(changed, axis=1))[:, None]
        return np.asarray(changed * scales, np.float32)
