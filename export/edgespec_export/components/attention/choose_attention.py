"""Which attention a graph has: one that keeps rows apart, by kernels if there are any."""

from __future__ import annotations

import onnx_ir as ir

from edgespec.artifact import graph_io
from edgespec.errors import UsageError
from edgespec_export.components.attention.attention import Attention, PositionEncoding
from edgespec_export.components.attention.cache_formats import CACHE_FORMATS
from edgespec_export.components.attention.fused_attention import Fused
from edgespec_export.components.attention.heads import Heads, Projections
from edgespec_export.components.attention.kv_cache import CACHES
from edgespec_export.components.attention.standard_attention import Standard
from edgespec_export.components.positions import Positions
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["attention_for"]

HEAD_MULTIPLE = 8  # GroupQueryAttention and our kernels take only head sizes that are multiples
BLOCK_PER_SIZE = 2  # positions that it computes as one block, for each number of a head


def attention_for(heads: Heads, cache: str = "fp32") -> Attention:
    """Operators with kernels where they take these heads; those of ONNX Runtime for a float32
    cache where they keep rows apart, too. Else standard ones.

    ONNX Runtime's take no cache with a scale for each position
    (docs/decisions/0007-cache-formats.md).

    Raises:
        UsageError: the cache is one of `CACHE_FORMATS` with attention in bfloat16, and no operator
            with a kernel takes these heads.
    """
    chosen = CACHE_FORMATS[cache]
    with_kernels = heads.size % HEAD_MULTIPLE == 0 and heads.cap is None and not heads.is_unusual
    others = Fused() if _fused_is_row_invariant(heads) else Standard()
    if chosen.attention == "bf16":
        if not with_kernels:
            raise UsageError(
                f"the cache format {cache} needs attention with a kernel, and there is none for "
                f"this model's heads ({heads.size} numbers); give {chosen.stored}"
            )
        return CompressedCache(Fused(chosen.stored, in_bfloat16=True), others)
    if heads.cap is not None or heads.is_unusual:  # no other operators have it
        return Standard(CACHES[cache]())
    if cache == "fp32":
        return others
    return CompressedCache(Fused(cache) if with_kernels else Standard(CACHES[cache]()), others)


def _fused_is_row_invariant(heads: Heads) -> bool:
    """Whether the largest verification fits into one block of the fused operator.

    A block of one position is computed by another kernel with other last bits, so a call that
    spans several blocks could leave its last row alone in one. The operator has a spare row.
    """
    fits = BLOCK_PER_SIZE * heads.size >= graph_io.MAX_ROWS + graph_io.SPARE_POSITIONS
    return heads.size % HEAD_MULTIPLE == 0 and fits


class CompressedCache(Attention):
    """Self-attention of the decoder with one cache, everything else by another attention."""

    def __init__(self, cached: Attention, others: Attention) -> None:
        self.supports_layouts = cached.supports_layouts
        self.supports_sources = others.supports_sources
        self.cache = cached.cache
        self.operators_of = cached.operators_of
        self._cached = cached
        self._others = others

    def cached(
        self,
        g: Graph,
        rows: Projections,
        layer: int,
        positions: Positions,
        encoding: PositionEncoding,
    ) -> ir.Value:
        return self._cached.cached(g, rows, layer, positions, encoding)

    def kept(
        self, g: Graph, q: ir.Value, heads: Heads, layer: int, positions: Positions
    ) -> ir.Value:
        return self._cached.kept(g, q, heads, layer, positions)

    def borrowed(self, g: Graph, heads: Heads, layer: int) -> None:
        self._cached.borrowed(g, heads, layer)

    def cross(
        self, g: Graph, q: ir.Value, heads: Heads, layer: int, positions: Positions
    ) -> ir.Value:
        return self._others.cross(g, q, heads, layer, positions)

    def full(self, g: Graph, rows: Projections, bias: ir.Value | None) -> ir.Value:
        return self._others.full(g, rows, bias)
