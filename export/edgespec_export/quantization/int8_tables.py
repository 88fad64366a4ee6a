"""Embeddings, heads and single matrices in 8 bits, with one scale for each row of a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgespec.artifact import graph_io
from edgespec_export.components.norms.norm import RmsNorm
from edgespec_export.components.output_head import OutputHead
from edgespec_export.onnx_graph.graph import Graph
from edgespec_export.operators.int8_ops import (
    HADAMARD_ROTATION,
    INT8_EMBEDDING,
    INT8_HEAD,
    INT8_MATMUL,
)
from edgespec_export.quantization.codes_and_scales import CodesAndScales
from edgespec_export.quantization.hadamard import STREAM_BLOCK, block_size, hadamard, rotated
from edgespec_export.quantization.rounding import per_row, side_by_side

__all__ = [
    "embedding_of_unrotated",
    "head_of_unrotated",
    "int8_head",
    "int8_matrix",
    "int8_table",
    "rotated_rows",
]

Table = tuple[ir.Value, ir.Value]
Rows = npt.NDArray[np.float32]


def int8_table(g: Graph, name: str, change: Callable[[Rows], Rows] = lambda rows: rows) -> Table:
    """The embedding or a head [tokens, width] and the scale of each row.

    Args:
        change: of its rows before they are rounded.
    """
    rounded = CodesAndScales(
        g.weights.shape(name),
        np.int8,
        lambda: (per_row(change(rows)) for rows in g.weights.checkpoint_rows(name)),
    )
    table = g.stored(f"{name}.int8", rounded.codes)
    return table, g.stored(f"{name}.scale", rounded.scales)


def rotated_table(g: Graph, name: str) -> Table:
    """`int8_table` of a checkpoint whose residual stream is not rotated."""
    return int8_table(g, name, lambda rows: rotated(rows, STREAM_BLOCK))


def embedding_of_unrotated(g: Graph, tokens: ir.Value, name: str) -> ir.Value:
    """Rows of a `rotated_table`, rotated back: a residual stream that is not rotated."""
    (rows,) = g.call(INT8_EMBEDDING, tokens, *rotated_table(g, name))
    return rotated_rows(g, rows, g.weights.shape(name)[1], STREAM_BLOCK)


def head_of_unrotated(g: Graph, x: ir.Value, head: OutputHead) -> ir.Value:
    """Logits of a residual stream that is not rotated."""
    if not isinstance(head.norm, RmsNorm):
        return _head_after_other_norm(g, head.norm.emit(g, x), head)
    rows = rotated_rows(g, x, g.weights.shape(head.table)[1], STREAM_BLOCK)
    return int8_head(g, rows, rotated_table(g, head.table), head)


def int8_head(g: Graph, x: ir.Value, table: Table, head: OutputHead) -> ir.Value:
    """Logits of a rotated residual stream; x is rotated back for the RMS norm, and then again.

    The graph also outputs the top tokens, so that greedy calls need no logits, unless logits have a
    cap: the operator's probabilities would be those without it.
    """
    norm = head.norm
    assert isinstance(norm, RmsNorm), "a rotated stream has RMS norms"
    (width,) = g.weights.shape(norm.weight)
    size = block_size(width, STREAM_BLOCK)
    if head.cap is None:
        mode = g.default_input(graph_io.OUTPUT_MODE, [0], np.int64, [1])
    else:
        mode = g.ints(0)  # logits only
    logits, tokens, highest, probabilities = g.call(
        INT8_HEAD,
        x,
        _scaled_norm(g, norm.weight, head.factor),
        g.constant(hadamard(size), np.float32),
        *table,
        mode,
        epsilon=norm.epsilon,
        blocks=[-1, size],
        rows=[-1, width],
    )
    if head.cap is not None:
        return head.capped(g, logits)
    g.output(graph_io.TOP_TOKENS, tokens, np.int64, ["top", "best"])
    g.output(graph_io.TOP_LOGITS, highest, np.float32, ["top", "best"])
    g.output(graph_io.TOP_PROBABILITIES, probabilities, np.float32, ["probabilities", "best"])
    return logits


def _head_after_other_norm(g: Graph, x: ir.Value, head: OutputHead) -> ir.Value:
    """Logits of the normed stream. A tied table is stored twice: as rows and as columns."""
    rows = x if head.factor == 1 else g.op.Mul(x, g.constant(head.factor, np.float32))
    (logits,) = g.call(INT8_MATMUL, rows, *int8_matrix(g, [head.table], f"{head.table}.head"))
    return head.capped(g, logits)


def int8_matrix(g: Graph, names: Sequence[str], stored: str | None = None) -> Table:
    """Matrices side by side [in, Σ out], and the scale of each output.

    Args:
        stored: their name in the weight file, if it is not made of theirs.
    """
    name = stored or "+".join(names)
    quantized = cache(lambda: side_by_side(map(g.weights.checkpoint_tensor, names)))
    weights = g.stored(f"{name}.int8", lambda: quantized()[0])
    return weights, g.stored(f"{name}.scale", lambda: quantized()[1])


def rotated_rows(g: Graph, x: ir.Value, width: int, max_block: int) -> ir.Value:
    """`hadamard.rotated` in a graph: [m, width], block by block."""
    size = block_size(width, max_block)
    if size == 1:
        return x
    matrix = g.constant(hadamard(size), np.float32)
    (y,) = g.call(HADAMARD_ROTATION, x, matrix, blocks=[-1, size], rows=[-1, width])
    return y


def _scaled_norm(g: Graph, name: str, factor: float) -> ir.Value:
    if factor == 1:
        return g.weight(name)
    scale = np.float32(factor)
    return g.stored(f"{name}*{scale}", lambda: g.weights.checkpoint_tensor(name) * scale)
