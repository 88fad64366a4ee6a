"""Norms as ONNX functions, so that they have the same bits on every processor."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from edgespec_export.onnx_graph.functions import Body, Function

__all__ = ["RMS_NORM"]


def _rms_norm(f: Body, x: ir.Value, norm: ir.Value) -> Sequence[ir.Value]:
    """x / √(mean(x²) + ε) · norm, [m, width]."""
    return [f.op.RMSNormalization(x, norm, axis=-1, epsilon=f.given("epsilon"))]


RMS_NORM = Function("RMSNorm", _rms_norm)
