"""The heads of an attention: their sizes, and rows of numbers as heads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from edgespec_export.components.norms.norm import Norm, RmsNorm
from edgespec_export.components.positions import Angles
from edgespec_export.onnx_graph.graph import Graph

__all__ = [
    "HeadNorms",
    "Heads",
    "Projections",
    "apply_rotary",
    "by_head",
    "normed_heads",
    "normed_rows",
]


@dataclass(frozen=True)
class Heads:
    """The heads of an attention.

    Attributes:
        count: query heads.
        kv_count: key and value heads; `count` is a multiple of it.
        size: width of a head.
        scale: factor on query · key.
        window: how many positions a query of self-attention sees, its own included; None if all
            before it (docs/decisions/0027-windows.md).
        cap: scores are cap · tanh(score / cap); None if they have no cap.
        is_unusual: no operator with a kernel takes all of the model's attention, whatever its size.
    """

    count: int
    kv_count: int
    size: int
    scale: float
    window: int | None = None
    cap: float | None = None
    is_unusual: bool = False


@dataclass(frozen=True)
class HeadNorms:
    """Norms of each head of queries and keys.

    Attributes:
        q, k: names of their weights [size].
    """

    q: str
    k: str
    epsilon: float


@dataclass(frozen=True)
class Projections:
    """Queries [m, count · size], keys and values [m, kv_count · size] of a call's rows.

    Attributes:
        norms: of queries and keys, which come before rotary positions; None if there are none.
        source: keys and values [1, kv_count, source, size] that all rows attend to as well, beside
            those of the cache (T5Gemma 2); None if there are none.
        sinks: name of the scores [count] of a key without a value, one for each query head, that
            all rows attend to as well (gpt-oss); None if there is no such key.
    """

    q: ir.Value
    k: ir.Value
    v: ir.Value
    heads: Heads
    norms: HeadNorms | None = None
    source: tuple[ir.Value, ir.Value] | None = None
    sinks: str | None = None


def apply_rotary(g: Graph, x: ir.Value, count: int, angles: Angles, heads: Heads) -> ir.Value:
    """Applies rotary positions to [m, count · size]."""
    if g.fixed is not None:  # by operators that NPUs have
        return _rotated_halves(g, x, count, angles, heads.size)
    batched = g.op.Unsqueeze(x, g.ints(0))  # [1, m, count · size]
    rows = g.op.RotaryEmbedding(batched, angles.cos, angles.sin, num_heads=count)
    return g.op.Reshape(rows, g.ints(-1, count * heads.size))


def _rotated_halves(g: Graph, x: ir.Value, count: int, angles: Angles, size: int) -> ir.Value:
    """x · cos + turned(x) · sin, where a product with a matrix of 0, 1 and -1 turns the halves of a
    head: its sums have one number and zeros, and Qualcomm's compiler fails at a `Concat` here."""
    turned = np.zeros((size, size), np.float32)
    half = np.arange(size // 2)
    turned[half + size // 2, half], turned[half, half + size // 2] = -1, 1
    cos, sin = (
        g.op.Reshape(g.op.Concat(part, part, axis=2), g.ints(-1, 1, size))
        for part in (angles.cos, angles.sin)
    )
    by_row = g.op.Reshape(x, g.ints(-1, count, size))
    halves = g.op.MatMul(by_row, g.constant(turned, np.float32))
    y = g.op.Add(g.op.Mul(by_row, cos), g.op.Mul(halves, sin))
    return g.op.Reshape(y, g.ints(-1, count * size))


def normed_heads(g: Graph, x: ir.Value, norm: Norm, size: int) -> ir.Value:
    """The norm of each head of [m, heads · size]."""
    rows = g.op.Reshape(x, g.ints(-1, size))
    return g.op.Reshape(norm.emit(g, rows), g.op.Shape(x))


def normed_rows(g: Graph, rows: Projections) -> tuple[ir.Value, ir.Value]:
    """Queries and keys with the norms of their heads, if these have some."""
    norms, size = rows.norms, rows.heads.size
    if norms is None:
        return rows.q, rows.k
    q = normed_heads(g, rows.q, RmsNorm(norms.q, norms.epsilon), size)
    k = normed_heads(g, rows.k, RmsNorm(norms.k, norms.epsilon), size)
    return q, k


def by_head(g: Graph, x: ir.Value, count: int, heads: Heads) -> ir.Value:
    """[m, count · size] to [1, count, m, size]."""
    return g.op.Transpose(g.op.Reshape(x, g.ints(1, -1, count, heads.size)), perm=[0, 2, 1, 3])
