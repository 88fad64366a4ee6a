"""Norms of the rows of [m, width]. A norm is a small object that a family puts into its blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import onnx_ir as ir

from edgespec_export.onnx_graph.graph import Graph
from edgespec_export.operators.norm_ops import RMS_NORM

__all__ = ["Factor", "NoNorm", "Norm", "PlainRmsNorm", "RmsNorm"]


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
class PlainRmsNorm:
    """An `RmsNorm` without weights, of rows of `size` numbers."""

    size: int
    epsilon: float

    def emit(self, g: Graph, x: ir.Value) -> ir.Value:
        ones = g.constant(np.ones(self.size), np.float32)
        (y,) = g.call(RMS_NORM, x, ones, epsilon=self.epsilon)
        return y


@dataclass(frozen=True)
class Factor:
    """x · factor, in the place of a norm.

    Attributes:
        factor: name of a tensor [1].
    """

    factor: str

    def emit(self, g: Graph, x: ir.Value) -> ir.Value:
        return g.op.Mul(x, g.weight(self.factor))


@dataclass(frozen=True)
class NoNorm:
    """x itself, where a model has no norm."""

    def emit(self, g: Graph, x: ir.Value) -> ir.Value:
        return x
