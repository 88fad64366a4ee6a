"""GPT-NeoX and Pythia: GPT-2's feed-forward beside an attention that rotates a part of each head.

Black et al. (2022, arXiv 2204.06745); Biderman et al. (2023, arXiv 2304.01373).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from edgespec_export.checkpoint.weights import Weights
from edgespec_export.components.blocks.block import Block
from edgespec_export.families.fused_heads import HeadsApart
from edgespec_export.families.layer_normed.layer_normed import FUSED, HARMLESS, LayerNormedRotary
from edgespec_export.families.model_config import Config, with_newer_keys
from edgespec_export.families.renamed_tensors import RenamedTensors
from edgespec_export.families.rotary.rotary_order import InRotaryOrder, rotary_halves

__all__ = ["GptNeoX"]

OLDER_HEAD = "embed_out."  # its name in files that transformers 4 wrote
# What older configs call the share of a head that is rotated, and the base.
OLDER_NAMES = {"rotary_pct": "partial_rotary_factor", "rotary_emb_base": "rope_theta"}


@dataclass(frozen=True, kw_only=True)
class GptNeoX(LayerNormedRotary):
    """The shape of a GPT-NeoX.

    Attributes:
        attention_bias: queries, keys, values and what attention adds have biases.
    """

    family = "gpt_neox"
    model_types: ClassVar[tuple[str, ...]] = ("gpt_neox",)
    table, head = "gpt_neox.embed_in.weight", "lm_head.weight"
    # Causal masks and frequencies, which follow from the config, and a copy of a tied head.
    redundant = re.compile(
        r"gpt_neox\.layers\.\d+\.attention\.((masked_)?bias|rotary_emb\.inv_freq)|lm_head\.weight"
    )

    attention_bias: bool

    @classmethod
    def from_config(cls, values: dict[str, Any], label: str) -> Self:
        config = Config(with_newer_keys(values, OLDER_NAMES), label)
        fields = cls.rotary_fields_of(config, label)
        heads = fields["heads"]  # each has a key, whatever a config says
        shape = cls(
            **{**fields, "heads": replace(heads, kv_count=heads.count)},
            activation=config.activation("hidden_act", "gelu"),
            is_parallel=config.flag("use_parallel_residual", True),
            attention_bias=config.flag("attention_bias", True),
        )
        config.must_be("is_decoder", False, True)  # of a decoder it changes nothing
        config.refuse_the_rest(harmless=HARMLESS)
        return shape

    def view(self, weights: Weights) -> Weights:
        named = RenamedTensors(weights, lambda name: name.replace(OLDER_HEAD, "lm_head."))
        order = rotary_halves(self.heads.size, self.rotated)
        return InRotaryOrder(
            HeadsApart(named, FUSED, self.heads), order, {FUSED: 2 * self.heads.count}
        )

    @property
    def last_norm_name(self) -> str:
        return "gpt_neox.final_layer_norm"

    def layer(self, index: int) -> tuple[Block, ...]:
        at = f"gpt_neox.layers.{index}"
        return self._fused_layer(at, "attention", index, attention_bias=self.attention_bias)
