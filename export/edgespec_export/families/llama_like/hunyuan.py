"""Hunyuan, dense (Hunyuan-MT): a Llama whose queries and keys are normalised after their rotation.

The rotary base is raised by a fixed factor ("alpha"), which its configs call dynamic.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from edgespec_export.components.blocks.block import AttentionBlock
from edgespec_export.components.blocks.self_attention import NormedAfterRotation
from edgespec_export.families.llama_like.llama import HARMLESS, Llama
from edgespec_export.families.llama_like.llama_kinds import RELATIVES
from edgespec_export.families.model_config import Config

__all__ = ["Hunyuan"]

DYNAMIC = "dynamic"
# What published configs say besides, and the only value that transformers computes.
FIXED: dict[str, Any] = {
    "add_classification_head": False,
    "mlp_bias": False,
    "norm_type": "rms",
    "position_embedding_xdrope": False,
    "use_cla": False,
    "use_qk_norm": True,
    "use_rotary_pos_emb": True,
}
# Settings of the base besides alpha, which say that nothing else is scaled.
UNSCALED = {"factor": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0}
OF_OTHER_KINDS = {"beta_fast", "beta_slow"}


@dataclass(frozen=True, kw_only=True)
class Hunyuan(Llama):
    """The shape of a dense Hunyuan."""

    family = "hunyuan"
    model_types: ClassVar[tuple[str, ...]] = ("hunyuan_v1_dense",)

    @classmethod
    def from_config(cls, values: dict[str, Any], label: str) -> Self:
        config = Config(_with_raised_base(values), label)
        for key, value in FIXED.items():
            config.must_be(key, value)
        config.must_be("attention_head_dim", config.get("head_dim"))
        shape = cls.fields_of(config, RELATIVES["hunyuan_v1_dense"], label)
        config.refuse_the_rest(harmless={*HARMLESS, "eod_token_id"})
        return cls(**shape)

    def _attention_block(self, at: str, index: int) -> AttentionBlock:
        name = f"{at}.self_attn"
        mixer = NormedAfterRotation(
            index,
            self.heads,
            q_norm=self._norm(f"{name}.query_layernorm"),
            k_norm=self._norm(f"{name}.key_layernorm"),
            identity_rotary=self.rotary.identity_rotary,
        )
        return replace(super()._attention_block(at, index), mixer=mixer)


def _with_raised_base(values: dict[str, Any]) -> dict[str, Any]:
    """A config whose base is multiplied by its alpha^(size / (size − 2)).

    Other settings stay, and are refused where they are not understood.
    """
    key = "rope_scaling" if values.get("rope_scaling") else "rope_parameters"
    rope = dict(values.get(key) or {})
    kinds = {rope.get("rope_type", DYNAMIC), rope.get("type", DYNAMIC)}
    if not rope.get("alpha") or kinds != {DYNAMIC}:
        return values
    size = values.get("head_dim") or values["hidden_size"] // values["num_attention_heads"]
    base = rope.get("rope_theta") or values.get("rope_theta") or 1e4
    rest = {
        name: value
        for name, value in rope.items()
        if name not in {"alpha", "type", "rope_type", *OF_OTHER_KINDS}
        and UNSCALED.get(name) != value
    }
    raised = base * rope["alpha"] ** (size / (size - 2))
    return {**values, key: {**rest, "rope_type": "default", "rope_theta": raised}}
