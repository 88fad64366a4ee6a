"""The format of a layer's keys and values in the cache: float32, or fewer bits.

Convolutions keep their inputs in buffers of the same kind (components/blocks/short_convolution.py).

What is written for a position does not depend on the other rows of its call. A buffer enters as
`past` and leaves as `present` in the same memory, so `TensorScatter` writes the call's positions
and copies nothing; only valid positions are read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgespec.artifact import graph_io
from edgespec_export.components.positions import Positions
from edgespec_export.onnx_graph.graph import Graph
from edgespec_export.operators.attention.narrow_cache import rounded_to_int8

__all__ = [
    "CACHES",
    "Buffer",
    "Cache",
    "CachedRows",
    "FullCache",
    "HalfCache",
    "Int8Cache",
    "ResidentCache",
]


@dataclass(frozen=True)
class Buffer:
    """One array of a layer's cache.

    Attributes:
        past, present: its names as input and as output of the graph.
        shape: [1, kv_count, capacity, size].
    """

    past: str
    present: str
    shape: tuple[int | str, ...]


@dataclass(frozen=True)
class CachedRows:
    """Keys or values of all valid positions.

    Attributes:
        rows: [1, kv_count, total, size].
        factors: [1, kv_count, 1, total], a factor for each row, or None. They have the shape of the
            scores: multiplying those is cheaper than multiplying rows.
    """

    rows: ir.Value
    factors: ir.Value | None = None


class Cache(Protocol):
    """A format of the cache."""

    def extended(
        self, g: Graph, buffer: Buffer, rows: ir.Value, positions: Positions
    ) -> CachedRows:
        """Writes this call's rows [1, kv_count, m, size]; returns them and all before them."""
        ...

    def kept(self, g: Graph, buffer: Buffer, positions: Positions) -> CachedRows:
        """What `extended` has returned for a buffer of another layer."""
        ...

    def borrowed(self, g: Graph, buffer: Buffer) -> None:
        """Adds a buffer of another model to the graph, for `kept`."""
        ...

    def gathered(
        self, g: Graph, buffer: Buffer, rows: ir.Value, positions: Positions, slots: ir.Value
    ) -> ir.Value:
        """Writes this call's rows; returns those at `slots` [n] of the buffer, in float32."""
        ...


class FullCache:
    """float32."""

    def extended(
        self, g: Graph, buffer: Buffer, rows: ir.Value, positions: Positions
    ) -> CachedRows:
        _written(g, buffer, np.float32, rows, positions)
        return self.kept(g, buffer, positions)

    def kept(self, g: Graph, buffer: Buffer, positions: Positions) -> CachedRows:
        return CachedRows(_valid(g, g.output_of(buffer.present), positions))

    def borrowed(self, g: Graph, buffer: Buffer) -> None:
        g.borrow(buffer.present, g.input(buffer.past, np.float32, buffer.shape))

    def gathered(
        self, g: Graph, buffer: Buffer, rows: ir.Value, positions: Positions, slots: ir.Value
    ) -> ir.Value:
        return g.op.Gather(_written(g, buffer, np.float32, rows, positions), slots, axis=2)


class HalfCache:
    """float16."""

    def extended(
        self, g: Graph, buffer: Buffer, rows: ir.Value, positions: Positions
    ) -> CachedRows:
        self._narrowed(g, buffer, rows, positions)
        return self.kept(g, buffer, positions)

    def kept(self, g: Graph, buffer: Buffer, positions: Positions) -> CachedRows:
        valid = _valid(g, g.output_of(buffer.present), positions)
        return CachedRows(g.op.Cast(valid, to=ir.DataType.FLOAT))

    def borrowed(self, g: Graph, buffer: Buffer) -> None:
        g.borrow(buffer.present, g.input(buffer.past, np.float16, buffer.shape))

    def gathered(
        self, g: Graph, buffer: Buffer, rows: ir.Value, positions: Positions, slots: ir.Value
    ) -> ir.Value:
        some = g.op.Gather(self._narrowed(g, buffer, rows, positions), slots, axis=2)
        return g.op.Cast(some, to=ir.DataType.FLOAT)

    def _narrowed(self, g: Graph, buffer: Buffer, rows: ir.Value, positions: Positions) -> ir.Value:
        narrow = g.op.Cast(rows, to=ir.DataType.FLOAT16)
        return _written(g, buffer, np.float16, narrow, positions)


class Int8Cache:
    """8 bits, symmetric, with a scale for each position of each head."""

    def extended(
        self, g: Graph, buffer: Buffer, rows: ir.Value, positions: Positions
    ) -> CachedRows:
        self._rounded(g, buffer, rows, positions)
        return self.kept(g, buffer, positions)

    def kept(self, g: Graph, buffer: Buffer, positions: Positions) -> CachedRows:
        names = buffer.present, graph_io.scale_name(buffer.present)
        codes, scales = (_valid(g, g.output_of(name), positions) for name in names)
        return CachedRows(
            g.op.Cast(codes, to=ir.DataType.FLOAT), g.op.Transpose(scales, perm=[0, 1, 3, 2])
        )

    def gathered(
        self, g: Graph, buffer: Buffer, rows: ir.Value, positions: Positions, slots: ir.Value
    ) -> ir.Value:
        codes, scales = (
            g.op.Gather(whole, slots, axis=2) for whole in self._rounded(g, buffer, rows, positions)
        )
        return g.op.Mul(g.op.Cast(codes, to=ir.DataType.FLOAT), scales)

    def borrowed(self, g: Graph, buffer: Buffer) -> None:
        g.borrow(buffer.present, g.input(buffer.past, np.int8, buffer.shape))
        past, present = (graph_io.scale_name(name) for name in (buffer.past, buffer.present))
        g.borrow(present, g.input(past, np.float32, (*buffer.shape[:-1], 1)))

    def _rounded(
        self, g: Graph, buffer: Buffer, rows: ir.Value, positions: Positions
    ) -> tuple[ir.Value, ir.Value]:
        """The buffers of codes and of scales [1, kv_count, capacity, 1]."""
        narrow, scale = rounded_to_int8(g, rows)
        scales = Buffer(
            graph_io.scale_name(buffer.past),
            graph_io.scale_name(buffer.present),
            (*buffer.shape[:-1], 1),
        )
        codes = _written(g, buffer, np.int8, narrow, positions)
        return codes, _written(g, scales, np.float32, scale, positions)


class ResidentCache:
    """float32, in the memory of a device that is told positions (`GivenPositions`).

    Attention reads whole buffers: what is not valid yet is masked. `ScatterElements` writes in
    place on every provider, and one that has no kernel for `TensorScatter` copies nothing.
    """

    def extended(
        self, g: Graph, buffer: Buffer, rows: ir.Value, positions: Positions
    ) -> CachedRows:
        past = g.input(buffer.past, np.float32, buffer.shape)
        queries = g.op.Reshape(positions.queries, g.ints(1, 1, -1, 1))
        # One row of the buffer, whose capacity is a name.
        row = [size if isinstance(size, int) else 1 for size in buffer.shape]
        every = g.constant(np.zeros(row), np.int32)
        present = g.op.ScatterElements(past, g.op.Add(queries, every), rows, axis=2)
        g.output(buffer.present, present, np.float32, buffer.shape)
        return CachedRows(present)

    def kept(self, g: Graph, buffer: Buffer, positions: Positions) -> CachedRows:
        return CachedRows(g.output_of(buffer.present))

    def borrowed(self, g: Graph, buffer: Buffer) -> None:
        g.borrow(buffer.present, g.input(buffer.past, np.float32, buffer.shape))

    def gathered(
        self, g: Graph, buffer: Buffer, rows: ir.Value, positions: Positions, slots: ir.Value
    ) -> ir.Value:
        return g.op.Gather(self.extended(g, buffer, rows, positions).rows, slots, axis=2)


CACHES: dict[str, Callable[[], Cache]] = {"fp32": FullCache, "fp16": HalfCache, "int8": Int8Cache}


def _written(
    g: Graph, buffer: Buffer, dtype: npt.DTypeLike, rows: ir.Value, positions: Positions
) -> ir.Value:
    """Adds a buffer to the graph and writes this call's rows into it."""
    past = g.input(buffer.past, dtype, buffer.shape)
    present = g.op.TensorScatter(past, rows, positions.past, axis=2)
    g.output(buffer.present, present, dtype, buffer.shape)
    return present


def _valid(g: Graph, whole: ir.Value, positions: Positions) -> ir.Value:
    """The valid rows of a buffer, [1, kv_count, total, size]."""
    return g.op.Slice(whole, g.ints(0), positions.total, g.ints(2))
