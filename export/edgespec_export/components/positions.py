"""Positions: the inputs that give them, rotary angles and the learned relative bias."""

from __future__ import annotations

import hashlib
import math
from copy import copy
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgespec.artifact import graph_io
from edgespec_export.onnx_graph.graph import FixedCall, Graph

__all__ = [
    "NO_LAYOUTS",
    "NO_SOURCES",
    "Angles",
    "GivenPositions",
    "Positions",
    "QueryFactors",
    "RelativeBias",
    "Rotary",
    "decoder_positions",
    "first_key_bias",
    "relative_buckets",
    "requested_rows",
]


class Positions:
    """The positions in the text of the rows of a decoder call.

    Attributes:
        past: int64 [1], valid positions in the cache.
        total: int64 [1], valid positions after this call.
        end: the same as a scalar.
        count: int64 [1], rows of this call (m).
        layouts: int64 [described, 3], where the last rows of the call stand (`graph_io.LAYOUTS`).
        sources: int64 [described, 2], which part of a source they see (`graph_io.SOURCES`).
        queries: int64 [m], the position of each row: past, past + 1, … and those of layouts.
        states: int64 [sequences, 6], of a model with recurrent layers (`graph_io.STATE_STEPS`);
            None of others.
    """

    def __init__(
        self,
        g: Graph,
        tokens: ir.Value,
        past: ir.Value,
        layouts: ir.Value,
        sources: ir.Value | None = None,
        states: ir.Value | None = None,
    ) -> None:
        self.past = past
        self.states = states
        self.layouts = layouts
        self.sources = sources
        self.count = g.op.Shape(tokens)
        self.total = g.op.Add(past, self.count)
        line = g.op.Sub(self.total, g.op.Shape(layouts, end=1))
        scalar = g.constant([], np.int64)
        start, line_end, self.end = (
            g.op.Reshape(value, scalar) for value in (past, line, self.total)
        )
        in_line = g.op.Range(start, line_end, g.constant(1, np.int64))
        described = g.op.Gather(layouts, g.constant(1, np.int64), axis=1)
        self.queries = g.op.Concat(in_line, described, axis=0)

    def later(self, g: Graph, steps: int) -> Positions:
        """The same rows, so many positions later in the sequence."""
        moved = copy(self)
        moved.queries = g.op.Add(self.queries, self.number(g, steps))
        return moved

    def number(self, g: Graph, value: int) -> ir.Value:
        """A number of the type of positions."""
        return g.constant(value, np.int64)

    def keys(self, g: Graph) -> ir.Value:
        """Positions of the keys that attention reads, [keys]: 0 … total - 1."""
        return g.op.Range(g.constant(0, np.int64), self.end, g.constant(1, np.int64))

    def limited(self, g: Graph, last: int) -> ir.Value:
        """`queries` as int64, none of them after `last`: a padded call may have a row after the
        last position of a table."""
        return g.op.Min(self.queries, g.constant(last, np.int64))

    def distances(self, g: Graph, far: int) -> ir.Value:
        """[m, keys]: how far each key is before each query, 0 to `far`; 0 for keys after it."""
        distance = g.op.Sub(g.op.Unsqueeze(self.queries, g.ints(1)), self.keys(g))
        return g.op.Clip(distance, g.constant(0, np.int64), g.constant(far, np.int64))


class GivenPositions(Positions):
    """Positions that the host gives, for devices whose operators take no int64 (WebGPU).

    Attention reads the whole buffer of the cache, so its shapes depend on the rows of a call only.
    There are no other attributes than these.

    Attributes:
        queries: int32 [m].
        count: int64 [1], rows of this call.
    """

    def __init__(self, g: Graph) -> None:
        self.queries = g.input(graph_io.ROW_POSITIONS, np.int32, ["m"])
        self.count = g.op.Shape(self.queries)
        self._keys = g.input(graph_io.KEY_POSITIONS, np.int32, ["capacity"])
        self.sources = self.states = None

    def number(self, g: Graph, value: int) -> ir.Value:
        return g.constant(value, np.int32)

    def keys(self, g: Graph) -> ir.Value:
        """All positions of the buffer, [capacity]."""
        return self._keys

    def limited(self, g: Graph, last: int) -> ir.Value:
        return g.op.Cast(self._clipped(g, self.queries, last), to=ir.DataType.INT64)

    def distances(self, g: Graph, far: int) -> ir.Value:
        distance = g.op.Sub(g.op.Unsqueeze(self.queries, g.ints(1)), self._keys)
        return g.op.Cast(self._clipped(g, distance, far), to=ir.DataType.INT32)

    def _clipped(self, g: Graph, numbers: ir.Value, most: int) -> ir.Value:
        """In float32, which holds all positions exactly: CUDA and WebGPU clip no int32."""
        wide = g.op.Cast(numbers, to=ir.DataType.FLOAT)
        return g.op.Clip(wide, g.constant(0, np.float32), g.constant(most, np.float32))


class FixedPositions(Positions):
    """Those of a call whose shapes are fixed: keys are all positions of the cache.

    Rows beyond the capacity are padding, and stand at its last position.
    """

    def __init__(self, g: Graph, past: ir.Value, call: FixedCall) -> None:
        self.past = past
        self.states = self.sources = None
        self.layouts = g.constant(NO_LAYOUTS, np.int64)
        self.count = g.ints(call.rows)
        self.total = g.ints(call.capacity)
        self.end = g.constant(call.capacity, np.int64)
        in_line = g.op.Add(past, g.constant(np.arange(call.rows), np.int64))
        self.queries = g.op.Min(in_line, g.constant(call.capacity - 1, np.int64))
        self._keys = g.constant(np.arange(call.capacity), np.int64)

    def keys(self, g: Graph) -> ir.Value:
        return self._keys


NO_LAYOUTS = np.zeros((0, 3), np.int64)
NO_SOURCES = np.zeros((0, 2), np.int64)


def decoder_positions(
    g: Graph, *, layouts: bool, sources: bool = False, states: bool = False
) -> tuple[ir.Value, Positions]:
    """The inputs of every decoder graph: the tokens of a call and their positions.

    Args:
        layouts: the graph's attention supports them.
        sources: the graph attends to a source.
        states: it has recurrent layers.
    """
    tokens = g.input(graph_io.TOKENS, np.int64, ["m"])
    if g.is_told_positions:
        return tokens, GivenPositions(g)
    past = g.input(graph_io.PAST_LENGTH, np.int64, [1])
    if g.fixed is not None:
        return tokens, FixedPositions(g, past, g.fixed)
    steps = g.input(graph_io.STATE_STEPS, np.int64, ["stepped", 6]) if states else None
    if not layouts:
        return tokens, Positions(g, tokens, past, g.constant(NO_LAYOUTS, np.int64), states=steps)
    described = g.default_input(graph_io.LAYOUTS, NO_LAYOUTS, np.int64, ["described", 3])
    if not sources:
        return tokens, Positions(g, tokens, past, described, states=steps)
    parts = g.default_input(graph_io.SOURCES, NO_SOURCES, np.int64, ["described", 2])
    return tokens, Positions(g, tokens, past, described, parts)


def requested_rows(g: Graph, x: ir.Value) -> ir.Value:
    """The rows whose logits the caller requests: [m, width] to [rows, width].

    A prefill requests only the last row, which saves the model's widest product for the others. In
    a call with fixed shapes it is all of them.
    """
    if g.fixed is not None:
        return x
    skip = g.input(graph_io.SKIP, np.int64, [1])
    return g.op.Slice(x, skip, g.ints(np.iinfo(np.int64).max), g.ints(0))


def first_key_bias(
    g: Graph, positions: Positions, heads: int, window: int | None = None
) -> ir.Value:
    """[1, heads, m, total]: 0, but for the first key and any row after the first a number that
    softmax makes 0; likewise for keys before a row's window, if there is one."""
    zero, queries = positions.number(g, 0), g.op.Unsqueeze(positions.queries, g.ints(1))
    hides = g.op.And(g.op.Greater(queries, zero), g.op.Equal(positions.keys(g), zero))
    if window is not None:
        last = g.op.Sub(queries, positions.number(g, window))
        hides = g.op.Or(hides, g.op.LessOrEqual(positions.keys(g), last))
    hidden, seen = g.constant(-1e30, np.float32), g.constant(0, np.float32)
    bias = g.op.Where(hides, hidden, seen)
    return g.op.Expand(g.op.Unsqueeze(bias, g.ints(0, 1)), g.ints(1, heads, 1, 1))


@dataclass(frozen=True)
class Angles:
    """Cosines and sines of the rotary angles of a call's rows, [1, m, size / 2].

    Number i of a head forms a pair with number i + size / 2, not with its neighbour.
    """

    cos: ir.Value
    sin: ir.Value


@dataclass(frozen=True)
class Rotary:
    """Rotary positions. Su et al. (2021), arXiv 2104.09864.

    Attributes:
        frequencies: radians per position of each pair of a head's numbers, [size / 2].
        positions: how many positions the tables hold.
        amplitudes: what the cosines and sines of each pair are multiplied by, [size / 2]; None: 1.
    """

    frequencies: npt.NDArray[np.float32]
    positions: int
    amplitudes: npt.NDArray[np.float32] | None = None

    @property
    def identity_rotary(self) -> Rotary:
        """Angles of 0, which rotate nothing."""
        return Rotary(np.zeros_like(self.frequencies), self.positions)

    def emit(self, g: Graph, positions: Positions) -> Angles:
        """The angles of this call's rows, from stored tables of all positions.

        The tables have one position more: a padded call may read one after the last. ONNX Runtime's
        `Cos` and `Sin` would have other bits on other processors, and would round the last few rows
        of a call differently.
        """
        return self.at(g, positions.queries)

    def at(self, g: Graph, positions: ir.Value) -> Angles:
        """The same at positions that a graph knows otherwise, int64 [m]: those of a source."""
        rows = (g.op.Gather(self._table(g, function), positions) for function in (np.cos, np.sin))
        return Angles(*(g.op.Unsqueeze(row, g.ints(0)) for row in rows))

    def _table(self, g: Graph, function: np.ufunc) -> ir.Value:
        """A function of the angles, which are rounded to float32 as in the original model."""
        amplitudes = b"" if self.amplitudes is None else self.amplitudes.tobytes()
        digest = hashlib.sha256(self.frequencies.tobytes() + amplitudes).hexdigest()[:8]

        def make() -> npt.NDArray[np.float32]:
            every = np.arange(self.positions + 1, dtype=np.float32)[:, None]
            angles = every * self.frequencies
            table = np.asarray(function(angles.astype(np.float64)), np.float32)
            return table if self.amplitudes is None else table * self.amplitudes

        name = f"rotary.{function.__name__}.{digest}.{self.positions}"
        return g.stored(name, make)


@dataclass(frozen=True)
class QueryFactors:
    """1 + beta · ln(1 + ⌊position / period⌋), what queries are multiplied by.

    Attributes:
        period: positions with the same factor.
        positions: how many the table holds.
    """

    beta: float
    period: int
    positions: int

    def emit(self, g: Graph, positions: Positions) -> ir.Value:
        """[m, 1], from a stored table as `Rotary` has them, and for the same reasons."""

        def make() -> npt.NDArray[np.float32]:
            periods = np.arange(self.positions + 1, dtype=np.float32) // np.float32(self.period)
            factors: npt.NDArray[np.float32] = 1 + np.float32(self.beta) * np.log1p(periods)
            return factors[:, None]

        name = f"query_factors.{self.beta}.{self.period}.{self.positions}"
        return g.op.Gather(g.stored(name, make), positions.queries)


@dataclass(frozen=True)
class RelativeBias:
    """A learned bias for the distance between query and key. Raffel et al. (2020), section 2.1.

    Attributes:
        table: name of the biases in the checkpoint, [buckets, heads].
        buckets: number of groups of distances.
        max_distance: all larger distances are in one bucket.
        both_ways: keys after a query have distances of their own, as in an encoder.
    """

    table: str
    buckets: int
    max_distance: int
    both_ways: bool

    def distances_of_encoder(self, g: Graph, tokens: ir.Value) -> ir.Value:
        """int64 [source, source]: every row attends to every other."""
        scalar = g.constant([], np.int64)
        length = g.op.Reshape(g.op.Shape(tokens), scalar)
        rows = g.op.Range(g.constant(0, np.int64), length, g.constant(1, np.int64))
        far = self.max_distance
        ahead = g.op.Sub(rows, g.op.Unsqueeze(rows, g.ints(1)))  # key - query
        ahead = g.op.Clip(ahead, g.constant(-far, np.int64), g.constant(far, np.int64))
        return g.op.Add(ahead, g.constant(far, np.int64))

    def distances_of_decoder(self, g: Graph, positions: Positions) -> ir.Value:
        """[m, keys]: keys after a query have distance 0."""
        return positions.distances(g, self.max_distance)

    def emit(self, g: Graph, distances: ir.Value) -> ir.Value:
        """What is added to the scores, [1, heads, queries, keys], from distances of its own kind.

        The export replaces buckets by distances, so a call reads only one table.
        """
        far = self.max_distance
        relative = np.arange(-far, far + 1) if self.both_ways else -np.arange(far + 1)
        buckets = relative_buckets(relative, self.both_ways, self.buckets, far)
        by_distance = g.stored(
            f"{self.table}.by_distance",
            lambda: np.ascontiguousarray(g.weights.checkpoint_tensor(self.table)[buckets].T),
        )
        return g.op.Unsqueeze(g.op.Gather(by_distance, distances, axis=1), g.ints(0))


def relative_buckets(
    relative: npt.NDArray[np.int64], bidirectional: bool, buckets: int, max_distance: int
) -> npt.NDArray[np.int64]:
    """The bucket of each key position relative to its query (Raffel et al. 2020, section 2.1).

    Half of the buckets are exact distances, the others grow logarithmically up to `max_distance`;
    an encoder has separate buckets for each direction. In float32, as the models were trained.
    """
    offset = np.zeros_like(relative)
    if bidirectional:
        buckets //= 2
        offset = (relative > 0) * buckets
    distance = np.abs(relative) if bidirectional else np.maximum(-relative, 0)
    exact = buckets // 2
    ratio = np.maximum(distance, 1).astype(np.float32) / np.float32(exact)
    scale = np.float32(math.log(max_distance / exact))
    logarithmic = np.log(ratio) / scale * np.float32(buckets - exact)
    far = np.minimum(exact + logarithmic.astype(np.int64), buckets - 1)
    return offset + np.where(distance < exact, distance, far)
