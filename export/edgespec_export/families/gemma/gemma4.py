"""Gemma 4's text model: E2B, E4B and the dense ones.

A relative of Gemma 3. Global layers have larger heads of which a quarter is rotated; the last
layers attend to what earlier ones wrote into the cache; values have a norm, too; each layer ends
with a factor, and in E2B and E4B reads an embedding of its own. Norms multiply by w, not 1 + w.
Google (2026), as transformers 5.24 computes it; experts (26B-A4B) are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import onnx_ir as ir

from edgespec.artifact.graph_io import LayerShape
from edgespec.errors import EdgespecError, shortened
from edgespec_export.checkpoint.weights import Weights
from edgespec_export.components.attention.heads import Heads
from edgespec_export.components.blocks.block import AttentionBlock, Block, FeedForwardBlock
from edgespec_export.components.blocks.layer_inputs import LayerInputGate, LayerInputs, RowsByLayer
from edgespec_export.components.blocks.self_attention import SelfAttention
from edgespec_export.components.blocks.shared_attention import KeptAttention, NormedValues
from edgespec_export.components.linear import Linear
from edgespec_export.components.norms.norm import Factor, NoNorm, PlainRmsNorm
from edgespec_export.components.number_format import NumberFormat
from edgespec_export.components.positions import Rotary
from edgespec_export.families.decoder_only import MAX_POSITIONS
from edgespec_export.families.gemma.gemma2 import cap_of
from edgespec_export.families.gemma.gemma3 import DEFAULT_PATTERN, TANH, Gemma3
from edgespec_export.families.model_config import Config
from edgespec_export.families.rotary.rope import LENGTH, whole_rotary
from edgespec_export.families.windows import (
    GLOBAL,
    WINDOWED,
    all_but_every,
    heads_of_kind,
    layer_kinds,
)
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["Gemma4"]

PER_LAYER = "model.embed_tokens_per_layer.weight"
ROPE: Mapping[str, Mapping[str, Any]] = {
    WINDOWED: {"rope_type": "default", "rope_theta": 1e4},
    GLOBAL: {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1e6},
}
GLOBAL_HEAD = 512  # numbers of a head of a global layer, unless the config says otherwise
# What the matrices themselves have, and sizes of experts, which these models have not.
HARMLESS = {"intermediate_size", "num_experts", "top_k_experts", "moe_intermediate_size"}


@dataclass(frozen=True, kw_only=True)
class Gemma4(Gemma3):
    """The shape of a Gemma 4.

    Attributes:
        layer_heads: of each layer, without windows.
        keeping_layers: how many layers write into the cache, the first ones; the others read what
            the last of them of their kind wrote.
        keys_are_values: global layers have no matrix of values.
        input_size: numbers of each layer's own embedding of a token; 0: there are none.
        input_tokens: tokens that have one; 0 where there are none.
    """

    family = "gemma4"
    model_types: ClassVar[tuple[str, ...]] = ("gemma4_text",)
    # A copy of a tied head, and matrices of layers that read what others wrote.
    redundant = re.compile(
        r"lm_head\.weight|model\.layers\.\d+\.self_attn\.(k_proj|v_proj|k_norm|v_norm)\.weight"
    )

    layer_heads: tuple[Heads, ...]
    keeping_layers: int
    keys_are_values: bool
    input_size: int
    input_tokens: int

    @classmethod
    def from_config(cls, values: dict[str, Any], label: str) -> Self:
        config = Config(values, label)
        if config.flag("enable_moe_block", False):
            raise EdgespecError(
                f"{label}: config.json says enable_moe_block = true; edgespec exports Gemma 4 only "
                "without experts (E2B, E4B, 31B)"
            )
        layers = config.count("num_hidden_layers", 30)
        kinds = _kinds(config, layers)
        layer_heads = _layer_heads(config, kinds)
        positions = min(config.count(LENGTH, 131072), MAX_POSITIONS)
        shape = cls(
            label=label,
            vocab_size=config.count("vocab_size", 262144),
            width=config.count("hidden_size", 2304),
            layers=layers,
            # Attention is chosen by the heads that fewest operators take.
            heads=min(layer_heads, key=lambda heads: (heads.size % 8 == 0, heads.size)),
            epsilon=config.number("rms_norm_eps", 1e-6),
            tied_head=config.flag("tie_word_embeddings", True),
            positions=positions,
            logit_cap=cap_of(config, "final_logit_softcapping"),
            window=config.count("sliding_window", 512),
            kinds=kinds,
            rotary=_rotary(config, dict(zip(kinds, layer_heads, strict=True)), positions, label),
            layer_heads=layer_heads,
            keeping_layers=layers - _whole_number(config, "num_kv_shared_layers", layers - 1),
            keys_are_values=config.flag("attention_k_eq_v", False),
            input_size=_whole_number(config, "hidden_size_per_layer_input", 2**31, 256),
            input_tokens=_whole_number(config, "vocab_size_per_layer_input", 2**31, 262144),
        )
        if not shape.input_size:
            shape = replace(shape, input_tokens=0)
        config.must_be("attention_bias", False)
        config.must_be("use_bidirectional_attention", "vision")  # text is causal there, too
        config.must_be("hidden_activation", *TANH)
        config.flag("use_double_wide_mlp", False)  # the matrices themselves are wider
        config.refuse_the_rest(harmless=HARMLESS)
        shape._check_shared_layers()
        return shape

    def _check_shared_layers(self) -> None:
        if self.input_size and self.input_tokens < self.vocab_size:
            raise ValueError(
                f"vocab_size_per_layer_input is {self.input_tokens} of {self.vocab_size} tokens"
            )
        for index in range(self.keeping_layers, self.layers):
            if self.kinds[index] not in self.kinds[: self.keeping_layers]:
                raise ValueError(f"layer {index} shares the keys of no layer of its kind")

    def view(self, weights: Weights) -> Weights:
        return RowsByLayer(weights, PER_LAYER, self.layers) if self.input_size else weights

    # --- the cache ---

    @property
    def cache_layers(self) -> int:
        return self.keeping_layers

    @property
    def layer_shapes(self) -> tuple[LayerShape, ...]:
        kept = self.layer_heads[: self.keeping_layers]
        shapes = tuple(LayerShape(heads.kv_count, heads.size) for heads in kept)
        return shapes if len({*shapes, LayerShape(self.kv_heads, self.head_size)}) > 1 else ()

    def cache_layer_of(self, index: int) -> int:
        """The layer of the cache that a layer writes or reads."""
        if index < self.keeping_layers:
            return index
        kept = self.kinds[: self.keeping_layers]
        return len(kept) - 1 - kept[::-1].index(self.kinds[index])

    # --- the layers ---

    def layer(self, index: int) -> tuple[Block, ...]:
        at = f"model.layers.{index}"
        attention, feed_forward = super().layer(index)
        assert isinstance(attention, AttentionBlock)
        in_proj, mixer = self._attention(index, attention.name)
        attention = replace(attention, in_proj=in_proj, mixer=mixer)
        factor = Factor(f"{at}.layer_scalar")
        if not self.input_size:
            return attention, replace(feed_forward, sum_norm=factor)
        own = FeedForwardBlock(
            name=f"{at}.per_layer_input",
            norm=NoNorm(),
            in_proj=Linear.named(f"{at}.per_layer_input_gate"),
            activation=LayerInputGate(index, "gelu_pytorch_tanh"),
            out_proj=Linear.named(f"{at}.per_layer_projection"),
            post_norm=self._norm(f"{at}.post_per_layer_input_norm"),
            sum_norm=factor,
        )
        return attention, feed_forward, own

    def _attention(self, index: int, name: str) -> tuple[Linear, KeptAttention | NormedValues]:
        """What a layer's attention reads, and its mixer."""
        heads, layer = self._heads_of(index), self.cache_layer_of(index)
        if index >= self.keeping_layers:
            mixer = KeptAttention(layer, heads, self._norm(f"{name}.q_norm"))
            return Linear.named(f"{name}.q_proj"), mixer
        shares = self.keys_are_values and self.kinds[index] == GLOBAL
        own = SelfAttention(layer, heads, self._head_norms(name))
        norm = PlainRmsNorm(heads.size, self.epsilon)
        parts = "qk" if shares else "qkv"
        in_proj = Linear.named(*(f"{name}.{part}_proj" for part in parts))
        return in_proj, NormedValues(own, norm, keys_are_values=shares)

    def _heads_of(self, index: int) -> Heads:
        heads = self.layer_heads[index]
        return heads_of_kind(heads, self.kinds[index], self.window, self.positions)

    def layer_inputs(
        self, g: Graph, tokens: ir.Value, x: ir.Value, number_format: NumberFormat
    ) -> Sequence[ir.Value]:
        if not self.input_size:
            return ()
        inputs = LayerInputs(
            PER_LAYER,
            Linear.named("model.per_layer_model_projection"),
            self._norm("model.per_layer_projection_norm"),
            self.layers,
            self.input_size,
            self.width,
        )
        return inputs.emit(g, tokens, x, number_format)

    def shapes(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        yield from super().shapes()
        if self.input_size:
            yield PER_LAYER, (self.input_tokens * self.layers, self.input_size)


def _kinds(config: Config, layers: int) -> tuple[str, ...]:
    """The kind of each layer; the last one is global, whatever the config says."""
    kinds = layer_kinds(config, all_but_every(DEFAULT_PATTERN, layers))
    return (*kinds[:-1], GLOBAL)


def _layer_heads(config: Config, kinds: Sequence[str]) -> tuple[Heads, ...]:
    """The heads of each layer: those of global layers differ, or what the config lists differs."""
    count, size = config.count("num_attention_heads", 8), config.count("head_dim", 256)
    kv_count = config.count("num_key_value_heads", 4)
    own = {"head_dim": config.count("global_head_dim", GLOBAL_HEAD)}
    global_kv = config.get("num_global_key_value_heads")
    if global_kv is not None and config.flag("attention_k_eq_v", False):
        own["num_key_value_heads"] = global_kv
    by_index = {str(index): own for index, kind in enumerate(kinds) if kind == GLOBAL}
    listed = config.get("per_layer_config", by_index)
    unknown = {key for entry in listed.values() for key in entry} - {
        "head_dim",
        "num_key_value_heads",
    }
    if unknown or not set(listed) <= set(map(str, range(len(kinds)))):
        raise ValueError(f"per_layer_config has {shortened(sorted(unknown or listed))}")
    settings = {"head_dim": size, "num_key_value_heads": kv_count}
    merged = [Config({**settings, **listed.get(str(i), {})}, "") for i in range(len(kinds))]
    return tuple(
        Heads(count, one.count("num_key_value_heads"), one.count("head_dim"), scale=1.0)
        for one in merged
    )


def _rotary(
    config: Config, heads: Mapping[str, Heads], positions: int, label: str
) -> dict[str, Rotary]:
    """Of each kind of layer that the model has."""
    settings = config.get("rope_parameters") or ROPE
    made = {}
    for kind, of_kind in heads.items():
        own = Config({"rope_parameters": dict(settings[kind]), LENGTH: config.get(LENGTH)}, label)
        made[kind] = whole_rotary(own, of_kind.size, positions, label)
    return made


def _whole_number(config: Config, key: str, most: int, default: int = 0) -> int:
    """A number from 0 to `most`."""
    value = config.get(key, default)
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"{key} is {shortened(value)}")
    return value
