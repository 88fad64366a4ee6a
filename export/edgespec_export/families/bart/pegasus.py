"""Pegasus: an mBART with sines for positions, and embeddings without a norm.

Zhang et al. (2019, arXiv 1912.08777).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from edgespec_export.components.norms.norm import NoNorm, Norm
from edgespec_export.families.bart.completed_weights import position_table
from edgespec_export.families.bart.marian import sinusoids
from edgespec_export.families.bart.mbart import MBart

__all__ = ["Pegasus"]


@dataclass(frozen=True, kw_only=True)
class Pegasus(MBart):
    """The shape of a Pegasus."""

    family = "pegasus"
    model_types: ClassVar[tuple[str, ...]] = ("pegasus",)
    legacy: ClassVar[Mapping[str, bool]] = {
        **MBart.legacy,
        "normalize_embedding": False,
        "static_position_embeddings": True,
    }
    position_offset = 0

    def left_out(self) -> dict[str, Callable[[], npt.NDArray[np.float32]]]:
        """A file may hold the tables of positions or leave them out."""
        tables = [position_table(stack) for stack in ("encoder", "decoder")]
        return {**super().left_out(), **dict.fromkeys(tables, self.position_rows)}

    def position_rows(self) -> npt.NDArray[np.float32]:
        """The table of positions that a file leaves out."""
        return sinusoids(self.positions, self.width)

    def embedding_norm(self, stack: str) -> Norm:
        return NoNorm()
