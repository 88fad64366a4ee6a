"""Number formats smaller than float32. Each keeps rows apart, or its manifest will say that it does
not.

Exactness is always with respect to the quantized model: what is lost against float32 is measured at
export and written into the manifest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgespec.artifact import graph_io
from edgespec.errors import EdgespecError
from edgespec_export.checkpoint.weights import Weights
from edgespec_export.components.blocks import FullPrecision, NumberFormat, rms_norm
from edgespec_export.onnx_graph.functions import Function
from edgespec_export.onnx_graph.graph import Graph
from edgespec_export.operators.half_ops import BFLOAT16_PRODUCT, FLOAT16_PRODUCT
from edgespec_export.operators.int8_ops import (
    HEAD,
    NORMED_PRODUCT,
    PRODUCT,
    TABLE_ROWS,
    TURNED_PRODUCT,
    TURNED_ROWS,
)
from edgespec_export.quantization.hadamard import (
    INNER_BLOCK,
    STREAM_BLOCK,
    Residual,
    Rotated,
    block_size,
    hadamard,
)

__all__ = ["FORMATS", "per_block", "per_channel", "per_row", "side_by_side", "turned_rows"]

Float = npt.NDArray[np.float32]


class Half(NumberFormat):
    """Weights in 16 bits, activations in float32. ONNX Runtime widens the matrices when it loads
    them; kernels read them as they are."""

    def __init__(self, dtype: Any, product: Function) -> None:
        self._dtype = np.dtype(dtype)
        self._product = product

    def table(self, g: Graph, tokens: ir.Value, name: str) -> ir.Value:
        rows = g.op.Gather(self._stored(g, [name]), tokens, axis=0)
        return g.op.Cast(rows, to=ir.DataType.FLOAT)

    def linear(self, g: Graph, x: ir.Value, name: str, bias: str | None = None) -> ir.Value:
        (y,) = self.linears(g, x, [name], [bias] if bias else [])
        return y

    def linears(
        self, g: Graph, x: ir.Value, names: Sequence[str], biases: Sequence[str] = ()
    ) -> Sequence[ir.Value]:
        (y,) = g.call(self._product, x, self._stored(g, names))
        return _parted(g, _biased(g, y, biases), names)

    def _stored(self, g: Graph, names: Sequence[str]) -> ir.Value:
        """Matrices below each other, [Σ out, in]."""
        return g.stored(
            f"{'+'.join(names)}.{self._dtype}",
            lambda: np.concatenate([self._narrow(g, name) for name in names]),
        )

    def _narrow(self, g: Graph, name: str) -> npt.NDArray[Any]:
        with np.errstate(over="ignore"):
            narrow = g.weights.checkpoint_tensor(name).astype(self._dtype)
        if not np.isfinite(narrow.astype(np.float32)).all():
            raise EdgespecError(f"tensor {name!r} has numbers beyond {self._dtype}; use bf16")
        return narrow


class Int8(NumberFormat):
    """Weights in 8 bits per output channel, activations in 8 bits per row (per token), both turned.

    A row's scale is its own; what comes out of a norm has one scale for all rows, known beforehand.
    Matrices with the same input are one product (int8_products.py). What is turned and why is in
    rotation.py: here are the places where a graph must turn with it.
    """

    # A norm's rows have root mean square 1, and turned ones are near to normally distributed: one
    # number in 16 000 lies beyond 4. An outlier that was the whole row has √(width / block) now.
    RANGE = 4

    def __init__(self) -> None:
        self._normed: dict[ir.Value, _Normed] = {}

    def prepared(self, weights: Weights, residual: Residual) -> Weights:
        return Rotated(weights, residual)

    def table(self, g: Graph, tokens: ir.Value, name: str) -> ir.Value:
        (rows,) = g.call(TABLE_ROWS, tokens, *self._table(g, name))
        return rows

    def linear(self, g: Graph, x: ir.Value, name: str, bias: str | None = None) -> ir.Value:
        (y,) = self.linears(g, x, [name], [bias] if bias else [])
        return y

    def linears(
        self, g: Graph, x: ir.Value, names: Sequence[str], biases: Sequence[str] = ()
    ) -> Sequence[ir.Value]:
        weights = self._weights(g, names)
        normed = self._normed.get(x)
        if normed is None:
            (y,) = g.call(PRODUCT, x, *weights)
        else:
            (y,) = g.call(
                NORMED_PRODUCT,
                normed.stream,
                normed.norm,
                *weights,
                epsilon=normed.epsilon,
                step=self.RANGE / 127,
            )
        return _parted(g, _biased(g, y, biases), names)

    def inner(self, g: Graph, x: ir.Value, name: str, bias: str | None = None) -> ir.Value:
        width = g.weights.shape(name)[1]
        size = block_size(width, INNER_BLOCK)
        if size == 1:
            return self.linear(g, x, name, bias)
        (y,) = g.call(
            TURNED_PRODUCT,
            x,
            g.constant(hadamard(size), np.float32),
            *self._weights(g, [name]),
            blocks=[-1, size],
            rows=[-1, width],
        )
        return _biased(g, y, [bias] if bias else [])

    def norm(self, g: Graph, x: ir.Value, name: str, epsilon: float) -> ir.Value:
        y = rms_norm(g, x, name, epsilon)
        (width,) = g.weights.shape(name)
        if width <= self.RANGE**2 * block_size(width, STREAM_BLOCK):
            self._normed[y] = _Normed(x, g.weight(name), epsilon)
        return y

    def unturned(self, g: Graph, x: ir.Value, width: int) -> ir.Value:
        return turned_rows(g, x, width, STREAM_BLOCK)

    def head(
        self, g: Graph, x: ir.Value, name: str, norm: str, epsilon: float, factor: float = 1.0
    ) -> ir.Value:
        """For greedy calls the arg-max comes from the graph, without the logits."""
        (width,) = g.weights.shape(norm)
        size = block_size(width, STREAM_BLOCK)
        logits, tokens, highest, probabilities = g.call(
            HEAD,
            x,
            _scaled_norm(g, norm, factor),
            g.constant(hadamard(size), np.float32),
            *self._table(g, name),
            g.default_input(graph_io.OUTPUT_MODE, [0], np.int64, [1]),
            epsilon=epsilon,
            blocks=[-1, size],
            rows=[-1, width],
        )
        g.output(graph_io.TOP_TOKENS, tokens, np.int64, ["top", "best"])
        g.output(graph_io.TOP_LOGITS, highest, np.float32, ["top", "best"])
        g.output(graph_io.TOP_PROBABILITIES, probabilities, np.float32, ["probabilities", "best"])
        return logits

    def _table(self, g: Graph, name: str) -> tuple[ir.Value, ir.Value]:
        """The embedding or a head [tokens, width], and the scale of each row."""
        quantized = cache(lambda: per_row(g.weights.checkpoint_tensor(name)))
        table = g.stored(f"{name}.int8", lambda: quantized()[0])
        return table, g.stored(f"{name}.scale", lambda: quantized()[1])

    def _weights(self, g: Graph, names: Sequence[str]) -> tuple[ir.Value, ir.Value]:
        """Matrices side by side [in, Σ out], and the scale of each output."""
        name = "+".join(names)
        quantized = cache(lambda: side_by_side(map(g.weights.checkpoint_tensor, names)))
        matrix = g.stored(f"{name}.int8", lambda: quantized()[0])
        return matrix, g.stored(f"{name}.scale", lambda: quantized()[1])


@dataclass(frozen=True)
class _Normed:
    """Where the rows of a norm come from: a product may make the norm its own."""

    stream: ir.Value
    norm: ir.Value
    epsilon: float


def _scaled_norm(g: Graph, name: str, factor: float) -> ir.Value:
    if factor == 1:
        return g.weight(name)
    scale = np.float32(factor)
    return g.stored(f"{name}*{scale}", lambda: g.weights.checkpoint_tensor(name) * scale)


def _biased(g: Graph, y: ir.Value, biases: Sequence[str]) -> ir.Value:
    if not biases:
        return y
    added = g.stored(
        "+".join(biases), lambda: np.concatenate([g.weights.checkpoint_tensor(b) for b in biases])
    )
    # Not `Add`: ONNX Runtime 1.31 moves one into its fused product, which then forgets it.
    return g.op.Sum(y, added)


def _parted(g: Graph, y: ir.Value, names: Sequence[str]) -> Sequence[ir.Value]:
    """What the matrices of a product make, each for itself."""
    return g.split(y, [g.weights.shape(n)[0] for n in names]) if len(names) > 1 else [y]


def turned_rows(g: Graph, x: ir.Value, width: int, most: int) -> ir.Value:
    """`rotation.turned` in a graph: [m, width], block by block."""
    size = block_size(width, most)
    if size == 1:
        return x
    matrix = g.constant(hadamard(size), np.float32)
    (y,) = g.call(TURNED_ROWS, x, matrix, blocks=[-1, size], rows=[-1, width])
    return y


class WeightOnly(NumberFormat):
    """Weights in blocks of 32 with a scale and a zero point each; activations as they come.

    The fastest plain decoder on a CPU and a poor verifier: every position costs (docs/speed.md).
    """

    BLOCK = 32

    def __init__(self, bits: int) -> None:
        self._bits = bits
        self._half = Half(np.float16, FLOAT16_PRODUCT)

    def table(self, g: Graph, tokens: ir.Value, name: str) -> ir.Value:
        return self._half.table(g, tokens, name)

    def linear(self, g: Graph, x: ir.Value, name: str, bias: str | None = None) -> ir.Value:
        out, width = g.weights.shape(name)
        quantized = cache(
            lambda: per_block(g.weights.checkpoint_tensor(name), self._bits, self.BLOCK)
        )
        kind = f"{name}.int{self._bits}"
        matrix = g.stored(f"{kind}.blocks", lambda: quantized()[0])
        scale = g.stored(f"{kind}.scale", lambda: quantized()[1])
        zero = g.stored(f"{kind}.zero", lambda: quantized()[2])
        (y,) = g.contrib(
            "MatMulNBits",
            [x, matrix, scale, zero],
            outputs=1,
            K=width,
            N=out,
            bits=self._bits,
            block_size=self.BLOCK,
            accuracy_level=4,  # activations in 8 bits, per row and block
        )
        return g.op.Add(y, g.weight(bias)) if bias else y


FORMATS: dict[str, Callable[[], NumberFormat]] = {
    "fp32": FullPrecision,
    "fp16": lambda: Half(np.float16, FLOAT16_PRODUCT),
    "bf16": lambda: Half(ml_dtypes.bfloat16, BFLOAT16_PRODUCT),
    "int8": Int8,
    "int8-weights": lambda: WeightOnly(8),
    "int4-weights": lambda: WeightOnly(4),
}


def per_channel(matrix: Float) -> tuple[npt.NDArray[np.int8], Float]:
    """A matrix [out, in] as int8 [in, out] and the scale of each output channel [out]."""
    rounded, scale = per_row(matrix)
    return np.ascontiguousarray(rounded.T), scale


def side_by_side(matrices: Iterable[Float]) -> tuple[npt.NDArray[np.int8], Float]:
    """`per_channel` of matrices [out, in] that stand below each other."""
    rounded, scales = zip(*map(per_channel, matrices), strict=True)
    return np.concatenate(rounded, axis=1), np.concatenate(scales)


def per_row(matrix: Float) -> tuple[npt.NDArray[np.int8], Float]:
    """A matrix as int8, and the scale of each row."""
    scale = np.maximum(np.abs(matrix).max(axis=1) / np.float32(127), np.float32(1e-30))
    return np.rint(matrix / scale[:, None]).astype(np.int8), scale


def per_block(
    matrix: Float, bits: int, block: int
) -> tuple[npt.NDArray[np.uint8], Float, npt.NDArray[np.uint8]]:
    """A matrix [out, in] in the layout of `MatMulNBits`.

    Returns blocks [out, blocks, block · bits / 8], scales [out · blocks] and zero points
    [out · blocks · bits / 8]; with 4 bits the first of two numbers is in the lower half of a byte.
    """
    out, width = matrix.shape
    blocks = -(-width // block)
    padded = np.zeros((out, blocks * block), np.float32)
    padded[:, :width] = matrix
    grouped = padded.reshape(out, blocks, block)
    low = np.minimum(grouped.min(axis=2), 0)
    high = np.maximum(grouped.max(axis=2), 0)
    levels = 2**bits - 1
    scale = np.maximum((high - low) / np.float32(levels), np.float32(1e-30))
    zero = np.rint(-low / scale).clip(0, levels)
    values = np.rint(grouped / scale[:, :, None] + zero[:, :, None]).clip(0, levels)
    return (
        _packed(values.astype(np.uint8), bits),
        scale.reshape(-1).astype(np.float32),
        _packed(zero.astype(np.uint8), bits).reshape(-1),
    )


def _packed(values: npt.NDArray[np.uint8], bits: int) -> npt.NDArray[np.uint8]:
    """Two numbers of 4 bits in a byte along the last axis, which is padded to an even length."""
    if bits == 8:
        return values
    if values.shape[-1] % 2:
        padding = np.zeros((*values.shape[:-1], 1), np.uint8)
        values = np.concatenate([values, padding], axis=-1)
    packed: npt.NDArray[np.uint8] = values[..., ::2] | (values[..., 1::2] << np.uint8(4))
    return packed
