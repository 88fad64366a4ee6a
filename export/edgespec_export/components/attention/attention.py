"""Attention over a static cache: what ONNX Runtime's fused operators and standard ones both do.

A cache buffer is [1, kv_heads, capacity, head_size]. It enters as `past` and leaves as `present`,
and a runtime binds both to the same memory. A call writes the positions of its rows and reads none
after them, so a rewind is a smaller `past_length`.

benchmarks/attention.py compares the two; docs/decisions/0002-attention.md records the choice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import onnx_ir as ir

from edgespec_export.components.attention.heads import Heads, Projections
from edgespec_export.components.attention.kv_cache import Cache
from edgespec_export.components.positions import Angles, Positions
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["Attention", "PositionEncoding", "cache_shape"]

# What tells attention the positions: rotary angles, or a bias [1, heads, m, keys] that is added to
# the scores before the softmax.
PositionEncoding = Angles | ir.Value


class Attention(ABC):
    """Emits attention. Results are [m, count · size].

    Attributes:
        supports_layouts: rows of a call may say where they stand (`Positions.layouts`), where there
            are kernels for it.
        supports_sources: they may see parts of a source (`Positions.sources`), likewise.
        cache: the format of its keys and values.
        operators_of: the name of that format, where operators with kernels write and read it.
    """

    supports_layouts: bool
    supports_sources: bool
    cache: Cache
    operators_of: str | None

    @abstractmethod
    def cached(
        self,
        g: Graph,
        rows: Projections,
        layer: int,
        positions: Positions,
        encoding: PositionEncoding,
    ) -> ir.Value:
        """Causal self-attention of a decoder layer; adds the layer's cache to the graph."""

    @abstractmethod
    def kept(
        self, g: Graph, q: ir.Value, heads: Heads, layer: int, positions: Positions
    ) -> ir.Value:
        """Causal self-attention of queries [m, count · size], rotated already, to a layer of the
        cache that `cached` has added to the graph."""

    @abstractmethod
    def borrowed(self, g: Graph, heads: Heads, layer: int) -> None:
        """Adds a layer of another model's cache to the graph, which `kept` then attends to."""

    @abstractmethod
    def cross(
        self, g: Graph, q: ir.Value, heads: Heads, layer: int, positions: Positions
    ) -> ir.Value:
        """Attention of queries [m, count · size] to the source, whose keys and values are inputs
        of the graph."""

    @abstractmethod
    def full(self, g: Graph, rows: Projections, bias: ir.Value | None) -> ir.Value:
        """Every row attends to every other: an encoder."""


def cache_shape(heads: Heads, width: int) -> tuple[int | str, ...]:
    return (1, heads.kv_count, "capacity", width)
