"""Rows of a call with a spare one after them, for ONNX Runtime's fused attention.

ONNX Runtime computes a single row by another kernel than several, with other last bits. With the
spare row there is never a single one (docs/decisions/0030-spare-row.md).
"""

from __future__ import annotations

import onnx_ir as ir

from edgespec_export.onnx_graph.functions import Body

__all__ = ["batched", "unbatched", "with_spare_row", "without_spare_row"]


def with_spare_row(f: Body, x: ir.Value) -> ir.Value:
    """[1, m, width] to [1, m + 1, width]."""
    return f.op.Pad(x, f.ints(0, 1), None, f.ints(1))


def without_spare_row(f: Body, x: ir.Value) -> ir.Value:
    return f.op.Slice(x, f.ints(0), f.ints(-1), f.ints(1))


def batched(f: Body, x: ir.Value) -> ir.Value:
    """[m, width] to [1, m, width]."""
    return f.op.Unsqueeze(x, f.ints(0))


def unbatched(f: Body, x: ir.Value) -> ir.Value:
    return f.op.Squeeze(x, f.ints(0))
