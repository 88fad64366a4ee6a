"""Norms of the rows of [m, width]. A norm is a small object that a family puts into its blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import onnx_ir as ir

from edgespec_export.onnx_graph.graph import Graph
from edgespec_export.operators.norm_ops import RMS_NORM

__all__ = ["NoNorm", "Norm", "RmsNorm"]


class Norm(Protocol):
    """A norm of rows."""

    def emit(self, g: Graph, x: ir.Value) -> ir.Value:
        """The norm of x over the last axis."""
        ...


@dataclass(frozen=True)
class RmsNorm:
    """x / √(mean(x²) + ε) · weight. Zhang and Sennrich (2019, arXiv 1910.07467)."""

    weight: str
    epsilon: float

    def emit(self, g: Graph, x: ir.Value) -> ir.Value:
        (y,) = g.call(RMS_NORM, x, g.weight(self.weight), epsilon=self.epsilon)
        return y


@dataclass(frozen=True)
class NoNorm:
    """x itself, where a model has no norm."""

    def emit(self, g: Graph, x: ir.Value) -> ir.Value:
        return x
