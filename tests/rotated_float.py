"""The rotation of `int8` without its eight bits: float32 products of rotated rows and weights."""

from __future__ import annotations

import numpy as np

from edgespec_export.components.linear import Linear
from edgespec_export.components.number_format import FullPrecision
from edgespec_export.quantization.hadamard import INNER_BLOCK, STREAM_BLOCK
from edgespec_export.quantization.int8 import Int8
from edgespec_export.quantization.int8_tables import rotated_rows


class RotatedFloat(FullPrecision):
    """`int8` without its eight bits."""

    transform_checkpoint = Int8.transform_checkpoint
    unrotated = Int8.unrotated

    def normed_linears(self, g, x, norm, linears):
        names = {name for linear in linears for name in linear.weights}
        if not names <= self.stream.rotated_reads:
            return super().normed_linears(g, x, norm, linears)
        width = g.weights.shape(linears[0].weights[0])[1]
        rows = rotated_rows(g, norm.emit(g, x), width, INNER_BLOCK)
        return [self.linear(g, rows, linear) for linear in linears]

    def head(self, g, x, head):
        if not self.stream.is_rotated:
            return super().head(g, x, head)
        (width,) = g.weights.shape(head.norm.weight)
        rows = head.norm.emit(g, rotated_rows(g, x, width, STREAM_BLOCK))
        rows = g.op.Mul(
            rotated_rows(g, rows, width, STREAM_BLOCK), g.constant(head.factor, np.float32)
        )
        (logits,) = self.linear(g, rows, Linear((head.table,)))
        return head.capped(g, logits)

    def down_proj(self, g, x, linear):
        (name,) = linear.weights
        rows = rotated_rows(g, x, g.weights.shape(name)[1], INNER_BLOCK)
        return super().down_proj(g, rows, linear)
