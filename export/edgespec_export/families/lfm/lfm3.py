"""LFM3: an LFM2 with windows, gates on heads, norms after blocks and rotary positions by layer.

Of four layers two are convolutions over seven positions, one attends to a window and one to all
positions. The output of each head is multiplied by a sigmoid of the layer's input. Global layers
rotate half of each head; a block's result is normalised before it is added. From transformers'
class (Lfm3ForCausalLM, 5.24); Liquid AI published no paper of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from edgespec_export.checkpoint.weights import Weights, read_rows
from edgespec_export.components.attention.heads import HeadNorms, Heads
from edgespec_export.components.blocks.block import AttentionBlock, Block, Mixer
from edgespec_export.components.blocks.self_attention import GatedHeads, SelfAttention
from edgespec_export.components.linear import Linear
from edgespec_export.families.decoder_only import MAX_POSITIONS
from edgespec_export.families.lfm.lfm2 import CONVOLUTION, Lfm2
from edgespec_export.families.model_config import Config
from edgespec_export.families.rotary.rope import LENGTH, whole_rotary
from edgespec_export.families.windows import GLOBAL, WINDOWED, heads_of_kind

__all__ = ["Lfm3"]

DEFAULT_BASE = 1e6
DEFAULT_WINDOW = 256
ROPE = {
    WINDOWED: {"rope_type": "default", "rope_theta": 1e4},
    GLOBAL: {"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": 0.5},
}
HARMLESS = {"intermediate_size"}  # the matrices themselves have it


@dataclass(frozen=True, kw_only=True)
class Lfm3(Lfm2):
    """The shape of an LFM3.

    Attributes:
        window: how many positions a windowed layer's queries see, their own included.
        gated: each head's output is multiplied by a gate.
        norms_after: each block's result is normalised before it is added.
    """

    family = "lfm3"
    model_types = ("lfm3",)

    window: int
    gated: bool
    norms_after: bool

    @classmethod
    def from_config(cls, values: dict[str, Any], label: str) -> Self:
        config = Config(values, label)
        size = config.count("head_dim", 128)
        heads = Heads(
            config.count("num_attention_heads", 16),
            config.count("num_key_value_heads", 4),
            size,
            scale=size**-0.5,
        )
        layers = config.count("num_hidden_layers", 24)
        kinds = _kinds(config, layers)
        positions = min(config.count(LENGTH, 128_000), MAX_POSITIONS)
        attention = sorted(set(kinds) - {CONVOLUTION})
        shape = cls(
            label=label,
            vocab_size=config.count("vocab_size", 128_000),
            width=config.count("hidden_size", 2048),
            layers=layers,
            heads=heads,
            epsilon=config.number("norm_eps", 1e-5),
            tied_head=config.flag("tie_word_embeddings", True),
            positions=positions,
            kinds=kinds,
            taps=config.count("conv_L_cache", 7),
            conv_bias=config.flag("conv_bias", False),
            window=_window(config, kinds),
            rotary_of={
                kind: whole_rotary(own, size, positions, label)
                for kind, own in _rope_by_kind(config, values, attention, label).items()
            },
            gated=config.flag("use_attention_gate", True),
            norms_after=config.flag("use_sandwich_norm", True),
        )
        if shape.taps < 2:
            raise ValueError(f"conv_L_cache is {shape.taps}")
        config.must_be("attention_bias", False)
        config.refuse_the_rest(harmless=HARMLESS)
        return shape

    def view(self, weights: Weights) -> Weights:
        return _PublishedNames(weights)

    def layer(self, index: int) -> tuple[Block, ...]:
        mixing, feed_forward = super().layer(index)
        if not self.norms_after:
            return mixing, feed_forward
        at = f"model.layers.{index}"
        return (
            replace(mixing, post_norm=self._norm(f"{at}.post_operator_norm")),
            replace(feed_forward, post_norm=self._norm(f"{at}.post_ffn_norm")),
        )

    def _attention_block(self, index: int, at: str) -> AttentionBlock:
        name, layer = f"{at}.self_attn", self._first_cache_layer(index)
        heads = heads_of_kind(self.heads, self.kinds[index], self.window, self.positions)
        norms = HeadNorms(f"{name}.q_norm.weight", f"{name}.k_norm.weight", self.epsilon)
        attention = SelfAttention(layer, heads, norms)
        mixer: Mixer = GatedHeads(attention) if self.gated else attention
        read = "qkvg" if self.gated else "qkv"
        return AttentionBlock(
            name=name,
            norm=self._norm(f"{at}.operator_norm"),
            in_proj=Linear.named(*(f"{name}.{part}_proj" for part in read)),
            mixer=mixer,
            out_proj=Linear.named(f"{name}.o_proj"),
        )


def _kinds(config: Config, layers: int) -> tuple[str, ...]:
    """The kind of each layer, as listed or by its number."""
    of_four = (WINDOWED, CONVOLUTION, GLOBAL, CONVOLUTION)
    default = [CONVOLUTION, *(of_four[index % 4] for index in range(1, layers))]
    kinds = tuple(config.get("layer_types", default))
    if len(kinds) != layers or not set(kinds) <= {CONVOLUTION, WINDOWED, GLOBAL}:
        found = sorted(set(map(str, kinds)))
        raise ValueError(f"layer_types has {len(kinds)} of {layers} layers: {found}")
    return kinds


def _window(config: Config, kinds: Sequence[str]) -> int:
    is_null = config.states("sliding_window") and config.get("sliding_window") is None
    if is_null and WINDOWED in kinds:
        raise ValueError("layer_types has windows, and sliding_window is null")
    return config.count("sliding_window", DEFAULT_WINDOW)


def _rope_by_kind(
    config: Config, values: Mapping[str, Any], kinds: Sequence[str], label: str
) -> dict[str, Config]:
    """A config with the rope settings of each of these kinds of layers.

    Raises:
        ValueError: settings of something that is no kind of attention, or none of a kind.
    """
    stated = config.get("rope_parameters") or ROPE
    if not set(kinds) <= set(stated) or not set(stated) <= set(ROPE):
        raise ValueError(f"rope_parameters has {sorted(stated)}, not {sorted(ROPE)}")
    base = config.number("rope_theta", DEFAULT_BASE)
    return {
        kind: Config({**values, "rope_parameters": {"rope_theta": base, **stated[kind]}}, label)
        for kind in kinds
    }


class _PublishedNames:
    """A checkpoint whose gates may have their published names: gate_proj instead of g_proj."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self._stored = {
            re.sub(r"\.self_attn\.gate_proj\.", ".self_attn.g_proj.", name): name
            for name in weights.names()
        }

    def names(self) -> list[str]:
        return sorted(self._stored)

    def shape(self, name: str) -> tuple[int, ...]:
        return self._weights.shape(self._stored.get(name, name))

    def read(self, name: str) -> npt.NDArray[np.generic]:
        return self._weights.read(self._stored.get(name, name))

    def read_rows(self, name: str, start: int, stop: int) -> npt.NDArray[np.generic]:
        return read_rows(self._weights, self._stored.get(name, name), start, stop)
