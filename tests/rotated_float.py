"""The rotation of `int8` without its eight bits: float32 products of rotated rows and weights."""

from __future__ import annotations

import numpy as np

from edgespec_export.components.blocks import FullPrecision, rms_norm
from edgespec_export.quantization.formats import Int8, turned_rows
from edgespec_export.quantization.hadamard import INNER_BLOCK, STREAM_BLOCK


class Turned(Int8):
    """`int8` without its eight bits."""

    table = FullPrecision.table
    linear = FullPrecision.linear
    linears = FullPrecision.linears
    norm = FullPrecision.norm

    def head(self, g, x, name, norm, epsilon, factor=1.0):
        (width,) = g.weights.shape(norm)
        rows = rms_norm(g, turned_rows(g, x, width, STREAM_BLOCK), norm, epsilon)
        rows = g.op.Mul(turned_rows(g, rows, width, STREAM_BLOCK), g.constant(factor, np.float32))
        return self.linear(g, rows, name)

    def inner(self, g, x, name, bias=None):
        rows = turned_rows(g, x, g.weights.shape(name)[1], INNER_BLOCK)
        return FullPrecision.linear(self, g, rows, name, bias)
