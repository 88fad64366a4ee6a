"""T5: v1.0 (relu, tied head), v1.1 and flan-t5 (gated gelu, own head), mT5, ByT5.

An encoder graph turns the source into the cross-attention keys and values of every decoder layer;
the decoder graph does the rest, for any number of positions. Raffel et al. (2020, arXiv
1910.10683).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgespec.artifact import graph_io
from edgespec_export.components.attention import Attention, Heads, source_shape
from edgespec_export.components.blocks import (
    NumberFormat,
    activated,
    asked_positions,
    decoder_positions,
    gated,
)
from edgespec_export.families.model_config import Config
from edgespec_export.onnx_graph.graph import Graph
from edgespec_export.quantization.hadamard import Residual

__all__ = ["T5", "relative_buckets"]

EMBEDDING = "shared.weight"
LAST_NORM = "decoder.final_layer_norm.weight"
HEAD = "lm_head.weight"
ACTIVATIONS = ("relu", "gelu", "gelu_new", "silu")


@dataclass(frozen=True)
class T5:
    """The shape of a T5 and where it differs from others; graphs come from `emit`.

    Attributes:
        gated: the feed-forward multiplies two projections.
        scale_outputs: decoder outputs are scaled by width^-½ before the head (v1.0).
        tied_head: the head is the embedding.
    """

    label: str
    vocab_size: int
    width: int
    encoder_layers: int
    layers: int
    heads: Heads
    epsilon: float
    activation: str
    gated: bool
    scale_outputs: bool
    tied_head: bool
    buckets: int
    max_distance: int
    start_token: int

    family = "t5"
    capacity = 512  # it was trained on 512 tokens
    features = 0
    positions = None  # but distances are bucketed, so there is no last position
    graphs = (graph_io.ENCODER, graph_io.DECODER)
    table, head = EMBEDDING, HEAD
    copies = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
    # Copies of the embedding, and a bias that old checkpoints keep and no attention reads.
    redundant = re.compile(
        r"(encoder|decoder)\.embed_tokens\.weight|lm_head\.weight"
        r"|decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight"
    )

    @property
    def kv_heads(self) -> int:
        return self.heads.kv_count

    @property
    def head_size(self) -> int:
        return self.heads.size

    @classmethod
    def from_config(cls, values: dict[str, object], label: str) -> T5:
        config = Config(values, label)
        feed_forward = config.get("feed_forward_proj", "relu")
        gated = feed_forward.startswith("gated-")
        dense = feed_forward.removeprefix("gated-")
        config.must_be("feed_forward_proj", *ACTIVATIONS, *(f"gated-{a}" for a in ACTIVATIONS))
        config.must_be("is_gated_act", gated)
        config.must_be("dense_act_fn", "gelu_new" if feed_forward == "gated-gelu" else dense)
        config.must_be("is_encoder_decoder", True)
        config.must_be("is_decoder", False)
        tied = config.flag("tie_word_embeddings", True)
        scaled = config.flag("scale_decoder_outputs", tied) and config.get("model_type") == "t5"
        heads, layers = config.count("num_heads"), config.count("num_layers")
        shape = cls(
            label=label,
            vocab_size=config.count("vocab_size"),
            width=config.count("d_model"),
            encoder_layers=layers,
            layers=config.count("num_decoder_layers", layers),
            heads=Heads(heads, heads, config.count("d_kv"), scale=1.0),
            epsilon=config.number("layer_norm_epsilon", 1e-6),
            activation="gelu_new" if feed_forward == "gated-gelu" else dense,
            gated=gated,
            scale_outputs=scaled,
            tied_head=tied,
            buckets=config.count("relative_attention_num_buckets", 32),
            max_distance=config.count("relative_attention_max_distance", 128),
            start_token=config.get("decoder_start_token_id", config.get("pad_token_id", 0)),
        )
        if type(shape.start_token) is not int or not 0 <= shape.start_token < shape.vocab_size:
            raise ValueError(f"decoder_start_token_id is {shape.start_token!r}")
        config.get("d_ff")  # the matrices themselves say it
        config.refuse_the_rest()
        return shape

    def emit(self, g: Graph, numbers: NumberFormat, attention: Attention) -> None:
        """Emits the graph named `g.name`."""
        {graph_io.ENCODER: self._encoder, graph_io.DECODER: self._decoder}[g.name](
            g, numbers, attention
        )

    def _encoder(self, g: Graph, numbers: NumberFormat, attention: Attention) -> None:
        tokens = g.input(graph_io.TOKENS, np.int64, ["source"])
        bias = self._encoder_bias(g, tokens)
        x = numbers.table(g, tokens, EMBEDDING)
        for layer in range(self.encoder_layers):
            block = f"encoder.block.{layer}.layer"
            at = f"{block}.0.SelfAttention"
            h = numbers.norm(g, x, f"{block}.0.layer_norm.weight", self.epsilon)
            q, k, v = numbers.linears(g, h, [f"{at}.{part}.weight" for part in "qkv"])
            out = attention.full(g, q, k, v, self.heads, bias)
            x = g.op.Add(x, numbers.linear(g, out, f"{at}.o.weight"))
            x = self._feed_forward(g, x, f"{block}.1", numbers)
        x = numbers.norm(g, x, "encoder.final_layer_norm.weight", self.epsilon)
        for layer in range(self.layers):
            at = f"decoder.block.{layer}.layer.1.EncDecAttention"
            parts = numbers.linears(g, x, [f"{at}.{part}.weight" for part in "kv"])
            for name, rows in zip(graph_io.cross_names(layer), parts, strict=True):
                rows = g.op.Reshape(rows, g.ints(1, -1, self.heads.count, self.heads.size))
                rows = g.op.Transpose(rows, perm=[0, 2, 1, 3])
                g.output(name, rows, np.float32, source_shape(self.heads))

    def _decoder(self, g: Graph, numbers: NumberFormat, attention: Attention) -> None:
        tokens, positions = decoder_positions(g, trees=attention.trees)
        bias = self._decoder_bias(g, positions.queries, positions.end)
        x = numbers.table(g, tokens, EMBEDDING)
        for layer in range(self.layers):
            block = f"decoder.block.{layer}.layer"
            at = f"{block}.0.SelfAttention"
            h = numbers.norm(g, x, f"{block}.0.layer_norm.weight", self.epsilon)
            q, k, v = numbers.linears(g, h, [f"{at}.{part}.weight" for part in "qkv"])
            out = attention.cached(g, q, k, v, self.heads, layer, positions, bias)
            x = g.op.Add(x, numbers.linear(g, out, f"{at}.o.weight"))
            at = f"{block}.1.EncDecAttention"
            h = numbers.norm(g, x, f"{block}.1.layer_norm.weight", self.epsilon)
            q = numbers.linear(g, h, f"{at}.q.weight")
            out = attention.cross(g, q, self.heads, layer)
            x = g.op.Add(x, numbers.linear(g, out, f"{at}.o.weight"))
            x = self._feed_forward(g, x, f"{block}.2", numbers)
        logits = self._head(g, asked_positions(g, x), numbers)
        g.output(graph_io.LOGITS, logits, np.float32, ["rows", self.vocab_size])

    def with_own_head(self) -> T5:
        return replace(self, tied_head=False)

    def shapes(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """What the tensors must be for this to be their model."""
        inner = self.heads.count * self.heads.size
        for name in self._tables:
            yield name, (self.vocab_size, self.width)
        for stack in ("encoder", "decoder"):
            yield _bias_table(stack), (self.buckets, self.heads.count)
        for block, attentions in self._blocks():
            for place, attention in enumerate(attentions):
                at = f"{block}.{place}.{attention}"
                for part in "qkv":
                    yield f"{at}.{part}.weight", (inner, self.width)
                yield f"{at}.o.weight", (self.width, inner)

    def residual(self) -> Residual:
        """Which tensors read and write the residual streams; both start from the same table."""
        readers, writers, inner = dict[str, str](), set[str](), set[str]()
        for block, attentions in self._blocks():
            for place, attention in enumerate(attentions):
                at, norm = f"{block}.{place}.{attention}", f"{block}.{place}.layer_norm.weight"
                reading = "qkv" if attention == "SelfAttention" else "q"
                readers |= {f"{at}.{part}.weight": norm for part in reading}
                writers.add(f"{at}.o.weight")
            dense = f"{block}.{len(attentions)}.DenseReluDense"
            norm = f"{block}.{len(attentions)}.layer_norm.weight"
            readers |= {f"{dense}.{wi}.weight": norm for wi in self._wi}
            inner.add(f"{dense}.wo.weight")
        for layer in range(self.layers):
            at = f"decoder.block.{layer}.layer.1.EncDecAttention"
            readers |= {f"{at}.{part}.weight": "encoder.final_layer_norm.weight" for part in "kv"}
        tables = frozenset(self._tables)
        return Residual(tables, readers, frozenset(writers | inner), frozenset(inner))

    def _blocks(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Every block of both stacks and its attentions; a feed-forward comes behind them."""
        for layer in range(self.encoder_layers):
            yield f"encoder.block.{layer}.layer", ("SelfAttention",)
        for layer in range(self.layers):
            yield f"decoder.block.{layer}.layer", ("SelfAttention", "EncDecAttention")

    @property
    def _wi(self) -> tuple[str, ...]:
        return ("wi_0", "wi_1") if self.gated else ("wi",)

    def _head(self, g: Graph, x: ir.Value, numbers: NumberFormat) -> ir.Value:
        factor = self.width**-0.5 if self.scale_outputs else 1.0
        return numbers.head(g, x, self._tables[-1], LAST_NORM, self.epsilon, factor)

    @property
    def _tables(self) -> tuple[str, ...]:
        """The embedding and the head, which may be one."""
        return (EMBEDDING,) if self.tied_head else (EMBEDDING, HEAD)

    def _feed_forward(self, g: Graph, x: ir.Value, block: str, numbers: NumberFormat) -> ir.Value:
        h = numbers.norm(g, x, f"{block}.layer_norm.weight", self.epsilon)
        dense = f"{block}.DenseReluDense"
        if self.gated:
            gate, up = numbers.linears(g, h, [f"{dense}.{wi}.weight" for wi in self._wi])
            h = gated(g, gate, up, self.activation)
        else:
            h = activated(g, numbers.linear(g, h, f"{dense}.wi.weight"), self.activation)
        return g.op.Add(x, numbers.inner(g, h, f"{dense}.wo.weight"))

    def _encoder_bias(self, g: Graph, tokens: ir.Value) -> ir.Value:
        scalar = g.constant([], np.int64)
        length = g.op.Reshape(g.op.Shape(tokens), scalar)
        places = g.op.Range(g.constant(0, np.int64), length, g.constant(1, np.int64))
        far = self.max_distance
        buckets = relative_buckets(np.arange(-far, far + 1), True, self.buckets, far)
        ahead = g.op.Sub(places, g.op.Unsqueeze(places, g.ints(1)))  # key - query
        ahead = g.op.Clip(ahead, g.constant(-far, np.int64), g.constant(far, np.int64))
        places = g.op.Add(ahead, g.constant(far, np.int64))
        return self._bias(g, buckets, places, "encoder")

    def _decoder_bias(self, g: Graph, queries: ir.Value, end: ir.Value) -> ir.Value:
        far = self.max_distance
        keys = g.op.Range(g.constant(0, np.int64), end, g.constant(1, np.int64))
        buckets = relative_buckets(-np.arange(far + 1), False, self.buckets, far)
        behind = g.op.Sub(g.op.Unsqueeze(queries, g.ints(1)), keys)
        behind = g.op.Clip(behind, g.constant(0, np.int64), g.constant(far, np.int64))
        return self._bias(g, buckets, behind, "decoder")

    def _bias(
        self, g: Graph, buckets: npt.NDArray[np.int64], places: ir.Value, stack: str
    ) -> ir.Value:
        """The learned bias of each (query, key): [1, heads, queries, keys].

        Buckets become distances at export, so that a call looks up one table.
        """
        name = _bias_table(stack)
        by_distance = g.stored(
            f"{name}.by_distance",
            lambda: np.ascontiguousarray(g.weights.checkpoint_tensor(name)[buckets].T),
        )
        return g.op.Unsqueeze(g.op.Gather(by_distance, places, axis=1), g.ints(0))


def _bias_table(stack: str) -> str:
    return f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"


def relative_buckets(
    relative: npt.NDArray[np.int64], bidirectional: bool, buckets: int, max_distance: int
) -> npt.NDArray[np.int64]:
    """The bucket of each key position relative to its query (Raffel et al. 2020, section 2.1).

    Half of the buckets are exact distances, the others grow logarithmically up to `max_distance`;
    the encoder keeps a set for each direction. In float32, as the models were trained.
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
