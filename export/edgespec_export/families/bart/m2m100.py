"""M2M100 and NLLB: a Pegasus whose positions count from the padding token's id, which has none.

Fan et al. (2020, arXiv 2010.11125); NLLB Team (2022, arXiv 2207.04672). The target's language is
the first token of a text, which the generation config forces.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgespec.errors import EdgespecError, shortened
from edgespec_export.families.bart.pegasus import Pegasus
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["M2M100", "fairseq_sinusoids"]


@dataclass(frozen=True, kw_only=True)
class M2M100(Pegasus):
    """The shape of an M2M100.

    Attributes:
        pad_token: has no position: nothing is added to its embedding.
    """

    family = "m2m100"
    model_types: ClassVar[tuple[str, ...]] = ("m2m_100",)
    # transformers makes the tables of positions anew, whatever a file holds.
    redundant = re.compile(rf"{Pegasus.redundant.pattern}|.*\.embed_positions\.weights")
    position_offset = 1  # the row of the padding token

    pad_token: int = 1

    @classmethod
    def from_config(cls, values: dict[str, Any], label: str) -> Self:
        shape = super().from_config(values, label)
        pad_token = values.get("pad_token_id", cls.pad_token)
        if type(pad_token) is not int or not 0 <= pad_token < shape.vocab_size:
            raise EdgespecError(
                f"{label}: config.json says pad_token_id = {shortened(pad_token)}; positions count "
                f"from it, so it must be one of the {shape.vocab_size} tokens (1 in published "
                "models)"
            )
        return replace(shape, pad_token=pad_token)

    def position_rows(self) -> npt.NDArray[np.float32]:
        """Zeros for the padding token, then the rows of the positions."""
        first = self.pad_token + 1
        sines = fairseq_sinusoids(np.arange(first, first + self.positions), self.width)
        return np.concatenate([np.zeros((1, self.width), np.float32), sines])

    def encoder_rows(self, g: Graph, tokens: ir.Value) -> ir.Value:
        """Padding tokens inside a source count as no position."""
        counted = g.op.Cast(self._has_position(g, tokens), to=ir.DataType.INT64)
        return g.op.Mul(g.op.CumSum(counted, g.constant(0, np.int64)), counted)

    def decoder_rows(self, g: Graph, tokens: ir.Value, queries: ir.Value) -> ir.Value:
        """Padding tokens inside a text count, as in transformers with a cache."""
        after = g.op.Add(queries, g.constant(1, np.int64))
        return g.op.Where(self._has_position(g, tokens), after, g.constant(0, np.int64))

    def _has_position(self, g: Graph, tokens: ir.Value) -> ir.Value:
        return g.op.Not(g.op.Equal(tokens, g.constant(self.pad_token, np.int64)))


def fairseq_sinusoids(positions: npt.NDArray[np.int64], width: int) -> npt.NDArray[np.float32]:
    """Sines of the positions' angles, then their cosines, [positions, width].

    Unlike in Vaswani et al. (2017) the last pair has the frequency 1/10000. In float32, as the
    models were trained.
    """
    half = width // 2
    step = np.float32(math.log(10000) / (half - 1)) if half > 1 else np.float32(0)
    frequencies = np.exp(np.arange(half, dtype=np.float32) * -step)
    angles = positions.astype(np.float32)[:, None] * frequencies
    table = np.zeros((len(positions), width), np.float32)
    table[:, :half], table[:, half : 2 * half] = np.sin(angles), np.cos(angles)
    return table
