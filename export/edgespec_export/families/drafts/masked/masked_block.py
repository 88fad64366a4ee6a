"""DFlash, DFlash-2 and DSpark: drafts that fill a block of masks with one call.

    the target's features ── fc ── hidden_norm ── context ─┬ keys and values of every layer
                                                           │
    last token, mask, mask, … ── embed_tokens ── x ── layers; each row sees the context and all rows
                                                   └─ norm ── lm_head ── logits of each row

The context is the text before the block; its keys and values stay in the cache, those of a block
are written after them and written over by the next call. Chen et al. (2026, arXiv 2602.06036);
DeepSpec (2026). docs/decisions/0051-masked-blocks.md says what a call is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import onnx_ir as ir

from edgespec.artifact import graph_io
from edgespec_export.checkpoint.weights import Weights
from edgespec_export.components.attention.attention import Attention
from edgespec_export.components.attention.block_attention import BlockSight, block_attention
from edgespec_export.components.attention.heads import (
    Heads,
    Projections,
    apply_rotary,
    normed_heads,
)
from edgespec_export.components.blocks.block import Block, EmitContext
from edgespec_export.components.linear import Linear
from edgespec_export.components.norms.norm import RmsNorm
from edgespec_export.components.number_format import NumberFormat
from edgespec_export.components.positions import decoder_positions
from edgespec_export.components.residual_stream import ResidualStream
from edgespec_export.families.drafts.eagle import Eagle
from edgespec_export.families.drafts.masked import transition
from edgespec_export.families.drafts.masked.block_config import (
    Convolution,
    Markov,
    Selector,
    block_fields,
)
from edgespec_export.families.drafts.masked.block_convolution import BlockConvolution
from edgespec_export.families.drafts.proposed import proposed_tokens
from edgespec_export.families.rotary.rotary_order import InRotaryOrder, neighbours
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["MaskedBlock"]

FUSION, FUSION_NORM = "fc.weight", "hidden_norm"
END = np.iinfo(np.int64).max


@dataclass(frozen=True, kw_only=True)
class MaskedBlock(Eagle):
    """A draft whose layers read its target's features as further keys and values.

    Attributes:
        vocab_size: tokens that it may propose.
        input_vocab_size: tokens that it reads: all of its target's.
        block_rows: rows of a block, that of the last token included.
        mask: the token of the others.
        from_anchor: each row predicts the token after it; if not, each mask its own token, and the
            first row none.
        rotates_neighbours: rotary positions turn pairs of neighbouring numbers, not of two halves.
        windows_are_causal: in layers with a window a row sees none of its block after it.
        markov, convolution, selector: None if there is none.
        has_confidence: each row says how probable it is that its token is accepted.
        confidence_reads_token: it depends on the token before.
    """

    family = "block"
    target_inputs = "its target's hidden states (a draft of blocks)"
    model_types = ("dflash", "dflash2", "dspark")
    table, head = "embed_tokens.weight", "lm_head.weight"
    redundant = re.compile(r"d2t|t2d|.*\.self_attn\.rotary_emb\.inv_freq|verifier_\w+\.weight")

    input_vocab_size: int  # pyright: ignore[reportGeneralTypeIssues]  # required here
    block_rows: int  # pyright: ignore[reportGeneralTypeIssues]  # required here
    mask: int
    from_anchor: bool
    rotates_neighbours: bool
    windows_are_causal: bool
    markov: Markov | None
    convolution: Convolution | None
    selector: Selector | None
    has_confidence: bool
    confidence_reads_token: bool

    @classmethod
    def from_config(cls, values: dict[str, Any], label: str) -> Self:
        """Of a draft's config with a key "target": layers and positions of its target."""
        return cls(**block_fields(values, label))

    @property
    def drafted(self) -> int:
        """Tokens that a call drafts."""
        return self.block_rows if self.from_anchor else self.block_rows - 1

    @property
    def transition(self) -> transition.Transition:
        return transition.Transition(
            self.width,
            self.vocab_size,
            self.markov,
            self.selector,
            self.has_confidence,
            self.confidence_reads_token,
        )

    @property
    def graphs(self) -> tuple[str, ...]:
        graphs = super().graphs
        return (*graphs, graph_io.TRANSITION) if self.transition.is_needed else graphs

    def view(self, weights: Weights) -> Weights:
        if not self.rotates_neighbours:
            return weights
        heads, size = self.heads, self.heads.size
        counts = {"q_proj": heads.count, "k_proj": heads.kv_count, "q_norm": 1, "k_norm": 1}
        return InRotaryOrder(weights, neighbours(size, size), counts)

    def proposed_tokens(self, weights: Weights) -> list[int]:
        return proposed_tokens(weights, self.vocab_size, self.input_vocab_size, self.label)

    @property
    def last_norm(self) -> RmsNorm:
        return self._norm("norm")

    def layer(self, index: int) -> tuple[Block, ...]:
        """What comes after attention, which also reads what is not in the stream."""
        return (self._feed_forward_block(f"layers.{index}"),)

    # --- graphs ---

    def emit(self, g: Graph, number_format: NumberFormat, attention: Attention) -> None:
        if g.name == graph_io.TRANSITION:
            self.transition.emit(g, number_format)
        else:
            super().emit(g, number_format, attention)

    def _feature_fusion(self, g: Graph, number_format: NumberFormat) -> None:
        features = g.input(graph_io.FEATURES, np.float32, ["m", self.features])
        context = number_format.down_proj(g, features, Linear((FUSION,)))
        context = self._norm(FUSION_NORM).emit(g, context)
        g.output(graph_io.FUSED_STATES, context, np.float32, ["m", self.width])

    def _decoder(self, g: Graph, number_format: NumberFormat, attention: Attention) -> None:
        tokens, positions = decoder_positions(g, layouts=False)
        states = g.input(graph_io.FUSED_STATES, np.float32, ["m", self.width])
        known = g.op.Sub(positions.count, g.ints(self.block_rows))  # [1], rows of the context
        context = g.op.Slice(states, g.ints(0), known, g.ints(0))
        block, queries = (
            g.op.Slice(rows, known, g.ints(END), g.ints(0)) for rows in (tokens, positions.queries)
        )
        x = number_format.table(g, block, self.table)
        shared = EmitContext(number_format, attention, positions, None)
        for index in range(self.layers):
            x = g.op.Add(x, self._attended(g, x, context, index, queries, shared))
            x = self._fed_forward(g, x, index, shared)
        if not self.from_anchor:
            x = g.op.Slice(x, g.ints(1), g.ints(END), g.ints(0))
        self.emit_logits(g, x, number_format)
        if self.transition.reads_states:
            rows = self.last_norm.emit(g, number_format.unrotated(g, x, self.width))
            g.output(graph_io.SLOT_STATES, rows, np.float32, ["drafted", self.width])
        g.metadata[graph_io.BLOCK] = str(self.drafted)
        g.metadata[graph_io.MASK] = str(self.mask)

    def _attended(
        self,
        g: Graph,
        x: ir.Value,
        context: ir.Value,
        index: int,
        queries: ir.Value,
        shared: EmitContext,
    ) -> ir.Value:
        """[b, width], what attention adds to the rows of a block, from these and the context."""
        at, positions = f"layers.{index}", shared.positions
        assert positions is not None, "a decoder has positions"
        stream = shared.number_format.unrotated(g, x, self.width)
        normed = self._norm(f"{at}.input_layernorm").emit(g, stream)
        after = None
        convolution = self._convolution(f"{at}.attention_conv")
        if convolution is not None:
            normed, after = convolution.prepared(g, normed, shared.number_format)
        both = g.op.Concat(context, normed, axis=0)
        heads = self._heads_of(index)
        q, k, v = (
            shared.number_format.down_proj(g, read, linear)
            for read, linear in zip((normed, both, both), self._reads(index), strict=True)
        )
        q = self._placed(g, q, f"{at}.self_attn.q_norm", heads.count, queries)
        k = self._placed(g, k, f"{at}.self_attn.k_norm", heads.kv_count, positions.queries)
        is_causal = heads.window is not None and self.windows_are_causal
        sight = BlockSight(queries, heads.window, is_causal)
        rows = Projections(q, k, v, heads)
        y = block_attention(g, rows, index, shared.attention, positions, sight)
        (y,) = shared.number_format.linear(g, y, self._output(index))
        return y if after is None or convolution is None else convolution.finished(g, y, after)

    def _placed(
        self, g: Graph, x: ir.Value, norm: str, count: int, positions: ir.Value
    ) -> ir.Value:
        """Queries or keys [rows, count · size] with the norms of their heads, rotated."""
        x = normed_heads(g, x, self._norm(norm), self.heads.size)
        return apply_rotary(g, x, count, self.rotary.at(g, positions), self.heads)

    def _fed_forward(self, g: Graph, x: ir.Value, index: int, shared: EmitContext) -> ir.Value:
        convolution = self._convolution(f"layers.{index}.mlp_conv")
        if convolution is None:
            return self.through_layer(g, x, index, shared)
        (block,) = self.layer(index)
        normed, after = convolution.prepared(g, block.norm.emit(g, x), shared.number_format)
        rows = [
            shared.number_format.down_proj(g, normed, Linear((name,)))
            for name in block.in_proj.weights
        ]
        y = self._feed_forward_block(f"layers.{index}").activation.emit(g, rows, shared)
        y = shared.number_format.down_proj(g, y, block.out_proj)
        return g.op.Add(x, convolution.finished(g, y, after))

    # --- tensors ---

    def _reads(self, index: int) -> list[Linear]:
        """The matrices of queries, keys and values."""
        at = f"layers.{index}.self_attn"
        return [Linear.named(f"{at}.{part}_proj", bias=self.qkv_bias) for part in "qkv"]

    def _output(self, index: int) -> Linear:
        return Linear.named(f"layers.{index}.self_attn.o_proj", bias=self.out_bias)

    def _convolution(self, name: str) -> BlockConvolution | None:
        if self.convolution is None:
            return None
        return BlockConvolution(name, self.width, self.convolution)

    def shapes(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        heads: Heads = self.heads
        yield self.table, (self.input_vocab_size, self.width)
        yield self.head, (self.vocab_size, self.width)
        yield FUSION, (self.width, self.features)
        counts = (heads.count, heads.kv_count, heads.kv_count)
        for index in range(self.layers):
            for linear, count in zip(self._reads(index), counts, strict=True):
                yield linear.weights[0], (count * heads.size, self.width)
            yield self._output(index).weights[0], (self.width, heads.count * heads.size)
            for name in ("attention_conv", "mlp_conv"):
                convolution = self._convolution(f"layers.{index}.{name}")
                if convolution is not None:
                    yield from convolution.shapes()
        yield from self.transition.shapes(self.input_vocab_size)

    @property
    def is_rotatable(self) -> bool:
        """Not where convolutions read norms of the stream."""
        return super().is_rotatable and self.convolution is None

    def residual_stream(self) -> ResidualStream:
        """The matrices of attention also read the context, which is not in the stream: a graph
        rotates what they read."""
        layers = super(Eagle, self).residual_stream()
        reads = {
            name for n in range(self.layers) for each in self._reads(n) for name in each.weights
        }
        down_projs = layers.down_projs.union({FUSION}, reads)
        if not self.is_rotatable:  # the feed-forward reads a convolution, not a norm
            down_projs |= layers.rotated_reads
            return replace(layers, down_projs=down_projs, rotated_reads=frozenset())
        outputs = [self._output(index) for index in range(self.layers)]
        written = {name for each in outputs for name in (*each.weights, *each.biases)}
        return replace(layers, writers=layers.writers.union(written), down_projs=down_projs)
