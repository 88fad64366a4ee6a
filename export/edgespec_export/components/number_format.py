"""How matrices are stored and multiplied: the base of all number formats, and float32."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import zip_longest

import numpy as np
import onnx_ir as ir

from edgespec_export.checkpoint.weights import Weights
from edgespec_export.components.linear import Linear
from edgespec_export.components.norms.norm import Norm
from edgespec_export.components.output_head import OutputHead
from edgespec_export.components.residual_stream import ResidualStream
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["FullPrecision", "MatrixByMatrix", "NumberFormat"]


class NumberFormat(ABC):
    """A number format. Families never ask which one it is.

    A family names the purpose of a matrix by the method that it calls; a format overrides the
    methods that it implements differently. Rows x are [m, width].

    Attributes:
        has_block_operators: there are operators that compute whole blocks of a layer in this
            format (passes/fuse_blocks.py).
    """

    has_block_operators = False

    def transform_checkpoint(self, weights: Weights, stream: ResidualStream) -> Weights:
        """The checkpoint's tensors as this format needs them."""
        return weights

    def say_rounding(self, label: str) -> None:  # noqa: B027 - most formats have nothing to say
        """Logs what became of weights that were rounded already, once all are written."""

    @abstractmethod
    def table(self, g: Graph, tokens: ir.Value, name: str) -> ir.Value:
        """Rows of the checkpoint's table `name`: tokens [m] to [m, width]."""

    @abstractmethod
    def linear(self, g: Graph, x: ir.Value, linear: Linear) -> Sequence[ir.Value]:
        """x · Wᵀ (+ b), one result [m, out] for each output of `linear`."""

    def normed_linears(
        self, g: Graph, x: ir.Value, norm: Norm, linears: Sequence[Linear]
    ) -> list[Sequence[ir.Value]]:
        """`linear` of the norm of the residual stream, for each of `linears`."""
        normed = norm.emit(g, x)
        return [self.linear(g, normed, linear) for linear in linears]

    def down_proj(self, g: Graph, x: ir.Value, linear: Linear) -> ir.Value:
        """`linear` for a matrix that reads products (`ResidualStream.down_projs`)."""
        (y,) = self.linear(g, x, linear)
        return y

    def unrotated(self, g: Graph, x: ir.Value, width: int) -> ir.Value:
        """The residual stream [m, width] as the checkpoint's own model has it."""
        return x

    def head(self, g: Graph, x: ir.Value, head: OutputHead) -> ir.Value:
        """Logits [m, vocab_size]; the head's matrix may be the embedding's `table`."""
        normed = head.norm.emit(g, x)
        if head.factor != 1:
            normed = g.op.Mul(normed, g.constant(head.factor, np.float32))
        (logits,) = self.linear(g, normed, Linear((head.table,)))
        return head.capped(g, logits)


class MatrixByMatrix(NumberFormat):
    """A format that multiplies each matrix by itself, also those that share an input."""

    def linear(self, g: Graph, x: ir.Value, linear: Linear) -> Sequence[ir.Value]:
        pairs = zip_longest(linear.weights, linear.biases)
        outputs = [self.product(g, x, weight, bias) for weight, bias in pairs]
        return g.split(outputs[0], linear.widths) if linear.widths else outputs

    @abstractmethod
    def product(self, g: Graph, x: ir.Value, weight: str, bias: str | None) -> ir.Value:
        """x · Wᵀ (+ b) for the checkpoint's matrix `weight`."""


class FullPrecision(MatrixByMatrix):
    """float32. `Gemm` takes the matrix as checkpoints store it, so no matrix is transposed."""

    def table(self, g: Graph, tokens: ir.Value, name: str) -> ir.Value:
        return g.op.Gather(g.weight(name), tokens, axis=0)

    def product(self, g: Graph, x: ir.Value, weight: str, bias: str | None) -> ir.Value:
        inputs = [x, g.weight(weight)] + ([g.weight(bias)] if bias else [])
        return g.op.Gemm(*inputs, transB=1)
