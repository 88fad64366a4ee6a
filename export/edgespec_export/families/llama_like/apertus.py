"""Apertus: a Llama with normalised heads, whose feed-forward is xIELU without a gate.

Apertus Project (2025, arXiv 2509.14233). The export computes the numbers of each layer's xIELU from
what is stored, so that graphs have α⁺ and α⁻ themselves.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from edgespec_export.checkpoint.weights import Weights, read_rows
from edgespec_export.components.blocks.block import AttentionBlock, FeedForwardBlock
from edgespec_export.components.blocks.feed_forward import XIelu
from edgespec_export.components.linear import Linear
from edgespec_export.families.llama_like.llama import HARMLESS, Llama
from edgespec_export.families.llama_like.llama_kinds import RELATIVES
from edgespec_export.families.model_config import Config

__all__ = ["Apertus"]

DEFAULT_ROPE = {
    **{"rope_type": "llama3", "rope_theta": 12e6, "factor": 8.0, "low_freq_factor": 1.0},
    **{"high_freq_factor": 4.0, "original_max_position_embeddings": 8192},
}


@dataclass(frozen=True, kw_only=True)
class Apertus(Llama):
    """The shape of an Apertus."""

    family = "apertus"
    model_types: ClassVar[tuple[str, ...]] = ("apertus",)
    # `eps` bounds where eˣ is computed, for numbers that are rounded to 0 there.
    redundant = re.compile(rf"{Llama.redundant.pattern}|.*\.act_fn\.eps")

    @classmethod
    def from_config(cls, values: dict[str, Any], label: str) -> Self:
        if not values.get("rope_parameters") and not values.get("rope_scaling"):
            base = values.get("rope_theta") or DEFAULT_ROPE["rope_theta"]
            values = {**values, "rope_parameters": {**DEFAULT_ROPE, "rope_theta": base}}
        config = Config({**values, "hidden_act": None}, label)
        Config(values, label).must_be("hidden_act", "xielu")
        shape = cls.fields_of(config, RELATIVES["apertus"], label)
        config.must_be("qk_norm", True)
        config.must_be("post_norm", False)
        config.refuse_the_rest(harmless=HARMLESS)
        return cls(**shape)

    def view(self, weights: Weights) -> Weights:
        return _WithAlphas(weights)

    def _attention_block(self, at: str, index: int) -> AttentionBlock:
        norm = self._norm(f"{at}.attention_layernorm")
        return replace(super()._attention_block(at, index), norm=norm)

    def _feed_forward_block(self, at: str) -> FeedForwardBlock:
        name = f"{at}.mlp.act_fn"
        return replace(
            super()._feed_forward_block(at),
            norm=self._norm(f"{at}.feedforward_layernorm"),
            in_proj=Linear.named(f"{at}.mlp.up_proj", bias=self.mlp_bias),
            activation=XIelu(f"{name}.alpha_p", f"{name}.alpha_n", f"{name}.beta"),
        )


class _WithAlphas:
    """The checkpoint with α⁺ = softplus(stored) and α⁻ = β + softplus(stored)."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self.names = weights.names

    def shape(self, name: str) -> tuple[int, ...]:
        return self._weights.shape(name) or (1,)

    def read(self, name: str) -> npt.NDArray[np.generic]:
        stored = self._weights.read(name)
        if ".act_fn." not in name:
            return stored
        values = np.reshape(stored, -1).astype(np.float32)
        if name.endswith(".alpha_p"):
            return np.logaddexp(values, np.float32(0))
        if name.endswith(".alpha_n"):
            beta = self.read(name.replace(".alpha_n", ".beta"))
            return beta + np.logaddexp(values, np.float32(0))
        return values

    def read_rows(self, name: str, start: int, stop: int) -> npt.NDArray[np.generic]:
        return read_rows(self._weights, name, start, stop)
