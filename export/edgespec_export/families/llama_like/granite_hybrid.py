"""Granite 4 (350m, 1b, micro): `granitemoehybrid` whose layers all attend and have no experts.

Such a model is a Granite whose feed-forward is named "shared_mlp" and stores both of its inputs in
one matrix. Without `position_embedding_type = "rope"` nothing is rotated.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from edgespec.errors import EdgespecError
from edgespec_export.components.blocks.block import FeedForwardBlock
from edgespec_export.components.linear import Linear
from edgespec_export.families.llama_like.granite import Granite
from edgespec_export.families.llama_like.llama import HARMLESS
from edgespec_export.families.llama_like.llama_kinds import RELATIVES
from edgespec_export.families.model_config import Config

__all__ = ["GraniteHybrid"]

TYPE = "granitemoehybrid"
ATTENTION = {"attention", "full_attention"}
# Of parts that these models do not have: the state-space layers and the experts.
OF_OTHER_PARTS = {
    *(f"mamba_{name}" for name in ("chunk_size", "conv_bias", "d_conv", "d_head", "d_state")),
    *(f"mamba_{name}" for name in ("expand", "n_groups", "n_heads", "proj_bias")),
    *("num_experts_per_tok", "output_router_logits", "router_aux_loss_coef", "time_step_limit"),
    *("time_step_max", "time_step_min", "time_step_floor"),
}


@dataclass(frozen=True, kw_only=True)
class GraniteHybrid(Granite):
    """The shape of a Granite 4 without state-space layers and experts.

    Attributes:
        feed_forward_width: width of the feed-forward.
    """

    family = "granite_hybrid"
    model_types: ClassVar[tuple[str, ...]] = (TYPE,)

    feed_forward_width: int

    @classmethod
    def from_config(cls, values: dict[str, Any], label: str) -> Self:
        kinds = values.get("layer_types") or values.get("layers_block_type") or ["mamba"]
        if not set(kinds) <= ATTENTION:
            raise EdgespecError(
                f"{label}: {sum(kind not in ATTENTION for kind in kinds)} of {len(kinds)} layers "
                "are state-space layers (layer_types); edgespec exports only Granite 4 models "
                "whose layers all attend, such as granite-4.0-350m, 1b and micro"
            )
        if values.get("num_local_experts", 8):
            raise EdgespecError(f"{label}: mixtures of experts are not supported")
        config = Config({**values, "layer_types": None, "layers_block_type": None}, label)
        shape = cls.multiplied_fields_of(config, RELATIVES[TYPE], label)
        rotates = config.get("position_embedding_type") == "rope"
        config.must_be("position_embedding_type", "rope", "nope")
        config.must_be("num_local_experts", 0)
        config.must_be("normalization_function", "rmsnorm")
        feed_forward_width = config.count("shared_intermediate_size")
        config.refuse_the_rest(harmless=OF_OTHER_PARTS | HARMLESS)
        if not rotates:
            shape["rotary"] = shape["rotary"].identity_rotary
        return cls(**shape, feed_forward_width=feed_forward_width)

    def _feed_forward_block(self, at: str) -> FeedForwardBlock:
        name = f"{at}.shared_mlp"
        return replace(
            super()._feed_forward_block(at),
            in_proj=Linear.named(
                f"{name}.input_linear", widths=(self.feed_forward_width, self.feed_forward_width)
            ),
            out_proj=Linear.named(f"{name}.output_linear"),
        )
