"""Llama and what is built like it: SmolLM2, Qwen2.5, Qwen3, Mistral without sliding window.

Decoder-only; grouped-query attention with rotary positions, gated silu feed-forward, RMS norms.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgespec.artifact import graph_io
from edgespec.errors import EdgespecError
from edgespec_export.components.attention import Angles, Attention, Heads
from edgespec_export.components.blocks import (
    NumberFormat,
    Positions,
    asked_positions,
    decoder_positions,
    gated,
    rms_norm,
)
from edgespec_export.families.model_config import Config
from edgespec_export.families.rope import inverse_frequencies
from edgespec_export.onnx_graph.graph import Graph
from edgespec_export.quantization.hadamard import Residual

__all__ = ["EMBEDDING", "KINDS", "Llama"]

KINDS = ("llama", "mistral", "qwen2", "qwen3")  # model types
EMBEDDING = "model.embed_tokens.weight"
LAST_NORM = "model.norm.weight"
HEAD = "lm_head.weight"
LONGEST_DEFAULT_CACHE = 8192
# Tables of rotary positions grow with them, to 577 MB for the million that Mistral-Nemo claims. No
# cache of so many positions fits where edgespec runs: Nemo's would have 43 GB at this many.
MOST_POSITIONS = 131072
HEAD_OF_QWEN3 = 128
WINDOW = 4096  # of a Mistral whose config does not say, and of a Qwen that only asks for one


@dataclass(frozen=True)
class Llama:
    """The shape of a Llama-like model and where it differs from others; graphs come from `emit`.

    Attributes:
        frequencies: of the rotary positions, [head size / 2].
        activation: of the feed-forward's gate.
        tied_head: the head is the embedding.
        qkv_bias, out_bias, mlp_bias: which projections have one (Qwen2: only q, k and v).
        head_norms: q and k are normalised head by head (Qwen3).
        positions: that the graphs can tell apart: the model's, up to `MOST_POSITIONS`.
        read_layers: those whose output the graph shows to a draft, counted from 1.
    """

    label: str
    vocab_size: int
    width: int
    layers: int
    heads: Heads
    epsilon: float
    frequencies: npt.NDArray[np.float32]
    activation: str
    tied_head: bool
    qkv_bias: bool
    out_bias: bool
    mlp_bias: bool
    head_norms: bool
    positions: int
    read_layers: tuple[int, ...] = ()

    family = "llama"
    table, head = EMBEDDING, HEAD
    copies = ()
    # Frequencies that follow from the config, and a copy of a tied head.
    redundant = re.compile(r"model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq|lm_head\.weight")
    start_token = None

    @property
    def capacity(self) -> int:
        return min(self.positions, LONGEST_DEFAULT_CACHE)

    @property
    def graphs(self) -> tuple[str, ...]:
        return (graph_io.DECODER,)

    @property
    def features(self) -> int:
        return len(self.read_layers) * self.width

    @property
    def kv_heads(self) -> int:
        return self.heads.kv_count

    @property
    def head_size(self) -> int:
        return self.heads.size

    @classmethod
    def from_config(cls, values: dict[str, object], label: str) -> Llama:
        config = Config(values, label)
        kind = config.need("model_type")
        heads = config.count("num_attention_heads")
        width = config.count("hidden_size")
        size = config.count("head_dim", HEAD_OF_QWEN3 if kind == "qwen3" else width // heads)
        # The others have no such choices, whatever their config says.
        bias = config.flag("attention_bias", False) and kind in ("llama", "qwen3")
        mlp_bias = config.flag("mlp_bias", False) and kind == "llama"
        shape = cls(
            label=label,
            vocab_size=config.count("vocab_size"),
            width=width,
            layers=config.count("num_hidden_layers"),
            heads=Heads(heads, config.count("num_key_value_heads", heads), size, scale=size**-0.5),
            epsilon=config.number("rms_norm_eps", 1e-6),
            frequencies=inverse_frequencies(config, size, label),
            activation=config.get("hidden_act", "silu"),
            tied_head=config.flag("tie_word_embeddings", False),
            qkv_bias=bias or kind == "qwen2",
            out_bias=bias,
            mlp_bias=mlp_bias,
            head_norms=kind == "qwen3",
            positions=min(config.count("max_position_embeddings"), MOST_POSITIONS),
        )
        config.must_be("hidden_act", "silu", "gelu", "gelu_new", "gelu_pytorch_tanh", "relu")
        config.must_be("is_encoder_decoder", False)
        config.must_be("rope_interleaved", False)
        config.get("is_llama_config")  # a remark of SmolLM2's
        _refuse_sliding_windows(config, kind, shape)
        config.get("intermediate_size")  # the matrices themselves say it
        config.refuse_the_rest()
        return shape

    def emit(self, g: Graph, numbers: NumberFormat, attention: Attention) -> None:
        """Emits the decoder graph."""
        tokens, positions = decoder_positions(g, trees=attention.trees)
        x = numbers.table(g, tokens, EMBEDDING)
        after = self._through_layers(g, x, positions, numbers, attention)
        self._end(g, after[-1], numbers)
        if self.read_layers:
            parts = [numbers.unturned(g, after[n - 1], self.width) for n in self.read_layers]
            features = g.op.Concat(*parts, axis=1)
            g.output(graph_io.FEATURES, features, np.float32, ["m", self.features])

    def _through_layers(
        self,
        g: Graph,
        x: ir.Value,
        positions: Positions,
        numbers: NumberFormat,
        attention: Attention,
    ) -> list[ir.Value]:
        """The residual stream [m, width] after each layer."""
        angles = self._angles(g, positions)
        after = []
        for layer in range(self.layers):
            block = f"model.layers.{layer}"
            h = numbers.norm(g, x, f"{block}.input_layernorm.weight", self.epsilon)
            q, k, v = self._projections(g, h, f"{block}.self_attn", numbers)
            out = attention.cached(g, q, k, v, self.heads, layer, positions, angles)
            (out,) = _project(g, numbers, out, [f"{block}.self_attn.o_proj"], self.out_bias)
            x = g.op.Add(x, out)
            h = numbers.norm(g, x, f"{block}.post_attention_layernorm.weight", self.epsilon)
            x = g.op.Add(x, self._feed_forward(g, h, f"{block}.mlp", numbers))
            after.append(x)
        return after

    def _end(self, g: Graph, x: ir.Value, numbers: NumberFormat) -> None:
        rows = asked_positions(g, x)
        logits = numbers.head(g, rows, self._tables[-1], LAST_NORM, self.epsilon)
        g.output(graph_io.LOGITS, logits, np.float32, ["rows", self.vocab_size])

    def with_own_head(self) -> Llama:
        return replace(self, tied_head=False)

    def shapes(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """What the tensors must be for this to be their model."""
        for name in self._tables:
            yield name, (self.vocab_size, self.width)
        asking, kept = (n * self.heads.size for n in (self.heads.count, self.heads.kv_count))
        for layer in range(self.layers):
            at = f"model.layers.{layer}.self_attn"
            yield f"{at}.q_proj.weight", (asking, self.width)
            yield f"{at}.k_proj.weight", (kept, self.width)
            yield f"{at}.v_proj.weight", (kept, self.width)
            yield f"{at}.o_proj.weight", (self.width, asking)

    def residual(self) -> Residual:
        """Which tensors read and write the residual stream."""
        readers, writers, inner = dict[str, str](), set[str](), set[str]()
        for layer in range(self.layers):
            block = f"model.layers.{layer}"
            norm = f"{block}.input_layernorm.weight"
            readers |= {f"{block}.self_attn.{part}_proj.weight": norm for part in "qkv"}
            norm = f"{block}.post_attention_layernorm.weight"
            readers |= {f"{block}.mlp.{part}_proj.weight": norm for part in ("gate", "up")}
            for writer in ("self_attn.o_proj", "mlp.down_proj"):
                writers |= {f"{block}.{writer}.weight", f"{block}.{writer}.bias"}
            inner.add(f"{block}.mlp.down_proj.weight")
        return Residual(frozenset(self._tables), readers, frozenset(writers), frozenset(inner))

    @property
    def _tables(self) -> tuple[str, ...]:
        """The embedding and the head, which may be one."""
        return (EMBEDDING,) if self.tied_head else (EMBEDDING, HEAD)

    def _projections(
        self, g: Graph, h: ir.Value, attention: str, numbers: NumberFormat
    ) -> tuple[ir.Value, ir.Value, ir.Value]:
        parts = [f"{attention}.{part}_proj" for part in "qkv"]
        q, k, v = _project(g, numbers, h, parts, self.qkv_bias)
        if self.head_norms:
            q = self._norm_heads(g, q, f"{attention}.q_norm.weight", self.heads.count)
            k = self._norm_heads(g, k, f"{attention}.k_norm.weight", self.heads.kv_count)
        return q, k, v

    def _norm_heads(self, g: Graph, x: ir.Value, name: str, count: int) -> ir.Value:
        heads = g.op.Reshape(x, g.ints(-1, count, self.heads.size))
        normed = rms_norm(g, heads, name, self.epsilon)
        return g.op.Reshape(normed, g.ints(-1, count * self.heads.size))

    def _feed_forward(self, g: Graph, h: ir.Value, mlp: str, numbers: NumberFormat) -> ir.Value:
        parts = [f"{mlp}.{part}_proj" for part in ("gate", "up")]
        gate, up = _project(g, numbers, h, parts, self.mlp_bias)
        h = gated(g, gate, up, self.activation)
        bias = f"{mlp}.down_proj.bias" if self.mlp_bias else None
        return numbers.inner(g, h, f"{mlp}.down_proj.weight", bias)

    def _angles(self, g: Graph, positions: Positions) -> Angles:
        """Of this call's positions.

        From tables of all positions, and one more: a padded call may look one behind the last.
        `Cos` and `Sin` of a call's own angles would round its last few numbers differently, so a
        position's angle would depend on what else is in the call. The tables follow from constants,
        so a session computes them once, when it is loaded, and they take no room in the file.
        """
        ends = (g.constant(end, np.float32) for end in (0, self.positions + 1, 1))
        every = g.op.Unsqueeze(g.op.Range(*ends), g.ints(1))
        angles = g.op.Mul(every, g.constant(self.frequencies, np.float32))
        rows = (
            g.op.Gather(table, positions.queries) for table in (g.op.Cos(angles), g.op.Sin(angles))
        )
        return Angles(*(g.op.Unsqueeze(row, g.ints(0)) for row in rows))


def _project(
    g: Graph, numbers: NumberFormat, x: ir.Value, names: Sequence[str], bias: bool
) -> Sequence[ir.Value]:
    weights, biases = ([f"{name}.{part}" for name in names] for part in ("weight", "bias"))
    return numbers.linears(g, x, weights, biases if bias else ())


def _refuse_sliding_windows(config: Config, kind: str, shape: Llama) -> None:
    """A window would need a cache that forgets, unless no text can be longer than it."""
    window = _window(config, kind)
    if window is not None and window < shape.positions:
        said = "config.json says" if config.states("sliding_window") else "by default,"
        raise EdgespecError(
            f"{shape.label}: {said} sliding_window = {window!r}; edgespec exports only models that "
            f"attend to all of their {shape.positions} positions"
        )
    config.must_be("layer_types", ["full_attention"] * len(config.get("layer_types", ())))


def _window(config: Config, kind: str) -> int | None:
    """How many positions a layer attends to, as transformers reads it; None is all of them.

    Qwen writes a window down that it uses only if it is asked to. Mistral asks nobody, and needs a
    null to have none. Llama has none in transformers, so one that it writes down is not believed.
    """
    asked = config.flag("use_sliding_window", kind == "llama")
    window: int | None = config.get("sliding_window")
    config.get("max_window_layers")
    if kind != "mistral" and not asked:
        return None
    return window if kind == "llama" or config.states("sliding_window") else WINDOW
