"""Marian (OPUS-MT): a BART with sines for positions, and embeddings without a norm.

Junczys-Dowmunt et al. (2018, arXiv 1804.00344).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from edgespec_export.components.norms.norm import NoNorm, Norm
from edgespec_export.families.bart.bart import Bart
from edgespec_export.families.bart.completed_weights import position_table

__all__ = ["Marian", "sinusoids"]


@dataclass(frozen=True, kw_only=True)
class Marian(Bart):
    """The shape of a Marian."""

    family = "marian"
    model_types: ClassVar[tuple[str, ...]] = ("marian",)
    legacy: ClassVar[Mapping[str, bool]] = {
        **Bart.legacy,
        "normalize_embedding": False,
        "static_position_embeddings": True,
    }
    position_offset = 0

    def left_out(self) -> dict[str, Callable[[], npt.NDArray[np.float32]]]:
        """transformers leaves the tables of positions out of files that it writes."""
        tables = [position_table(stack) for stack in ("encoder", "decoder")]
        made = {table: lambda: sinusoids(self.positions, self.width) for table in tables}
        return {**super().left_out(), **made}

    def embedding_norm(self, stack: str) -> Norm:
        return NoNorm()


def sinusoids(positions: int, width: int) -> npt.NDArray[np.float32]:
    """Sines of a position's angles, then their cosines, [positions, width].

    Vaswani et al. (2017, arXiv 1706.03762), section 3.5, where the two alternate.
    """
    pairs = np.arange((width + 1) // 2)
    angles = np.arange(positions)[:, None] / 10000.0 ** (2 * pairs / width)
    table = np.concatenate([np.sin(angles), np.cos(angles[:, : width // 2])], axis=1)
    return table.astype(np.float32)
