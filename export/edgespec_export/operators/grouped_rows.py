"""Rows rounded to 8 bits in groups of `GROUP` numbers, as nodes of a function's body.

A row has a scale for each group, which maps its largest number to ±127, so that an outlier costs
only its group precision.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from edgespec_export.onnx_graph.functions import Body

__all__ = ["GROUP", "rounded_groups"]

GROUP = 32


def rounded_groups(f: Body, x: ir.Value) -> ir.Value:
    """x [m, k] as whole numbers times the scale of their group: [m, k / GROUP, GROUP]."""
    groups = f.op.Reshape(x, f.ints(0, -1, GROUP))
    largest = f.op.ReduceMax(f.op.Abs(groups), f.ints(-1), keepdims=1)
    step = f.op.Max(
        f.op.Mul(largest, f.constant(1 / 127, np.float32)), f.constant(1e-30, np.float32)
    )
    lowest, highest = f.constant(-128, np.float32), f.constant(127, np.float32)
    whole = f.op.Clip(f.op.Round(f.op.Div(groups, step)), lowest, highest)
    return f.op.Mul(whole, step)
