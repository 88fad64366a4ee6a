"""The convolution over the rows of a block, before and after attention and feed-forward (DFlash-2).

y[i] = Σ over t of x[i - t] · (base[t] + delta[i, t]), where delta is a product of x[i]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from edgespec_export.components.linear import Linear
from edgespec_export.components.number_format import NumberFormat
from edgespec_export.families.drafts.masked.block_config import Convolution
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["BlockConvolution"]


@dataclass(frozen=True)
class BlockConvolution:
    """A convolution of what a part of a layer reads, and one of what it returns.

    Attributes:
        name: in the checkpoint.
        width: of the rows.
        shape: of both.
    """

    name: str
    width: int
    shape: Convolution

    def prepared(
        self, g: Graph, x: ir.Value, number_format: NumberFormat
    ) -> tuple[ir.Value, ir.Value]:
        """What the part reads, from rows [b, width], and the factors of what it returns."""
        (factors,) = number_format.linear(g, x, Linear.named(self._projection))
        each = self.shape.taps * self._groups
        before, after = g.split(factors, [each, each])
        return self._mixed(g, x, before, 0), after

    def finished(self, g: Graph, x: ir.Value, factors: ir.Value) -> ir.Value:
        """What the part returns, [b, width], with factors of `prepared`."""
        return self._mixed(g, x, factors, 1)

    def _mixed(self, g: Graph, x: ir.Value, factors: ir.Value, side: int) -> ir.Value:
        """[b, width]; factors are [b, taps · groups]."""
        taps, group = self.shape.taps, self.shape.group
        rows = g.op.Reshape(x, g.ints(-1, self._groups, group))
        deltas = g.op.Reshape(factors, g.ints(-1, taps, self._groups, 1))
        base = g.op.Gather(g.weight(self._base), g.constant(side, np.int64), axis=0)
        base = g.op.Reshape(base, g.ints(taps, self._groups, group))
        parts = []
        for tap in range(taps):
            number = g.constant(tap, np.int64)
            factor = g.op.Add(
                g.op.Gather(base, number, axis=0), g.op.Gather(deltas, number, axis=1)
            )
            parts.append(g.op.Mul(self._earlier(g, rows, tap), factor))
        mixed = parts[0] if taps == 1 else g.op.Sum(*parts)
        return g.op.Reshape(mixed, g.ints(-1, self.width))

    def _earlier(self, g: Graph, rows: ir.Value, steps: int) -> ir.Value:
        """The row so many before each; zeros before the first."""
        if steps == 0:
            return rows
        kept = g.op.Slice(rows, g.ints(0), g.ints(-steps), g.ints(0))
        zero = g.constant(0, np.float32)
        return g.op.Pad(kept, g.ints(steps, 0, 0, 0, 0, 0), zero, mode="constant")

    @property
    def _groups(self) -> int:
        return self.width // self.shape.group

    @property
    def _base(self) -> str:
        return f"{self.name}.base_kernel"

    @property
    def _projection(self) -> str:
        return f"{self.name}.kernel_projection"

    def shapes(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        taps = self.shape.taps
        yield self._base, (2, taps, self.width)
        yield f"{self._projection}.weight", (2 * taps * self._groups, self.width)
