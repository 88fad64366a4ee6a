"""MiniCPM 1, 2 and 4: a Llama with three scales, which are a Granite's multipliers.

Embeddings are multiplied by `scale_emb`, what blocks add by `scale_depth` / √layers, and logits are
divided by the width per `dim_model_base`. Hu et al. (2024, arXiv 2404.06395). Their code comes with
the checkpoints; transformers has no class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from edgespec_export.families.llama_like.granite import Granite
from edgespec_export.families.llama_like.llama import HARMLESS
from edgespec_export.families.llama_like.llama_kinds import RELATIVES
from edgespec_export.families.model_config import Config
from edgespec_export.families.rotary.longrope import split_longrope

__all__ = ["MiniCpm"]

# Keys that say what the code does anyway, and those of training and of other attentions.
FIXED: dict[str, Any] = {"num_experts": 0, "use_mrope": False, "sparse_config": {}}


@dataclass(frozen=True, kw_only=True)
class MiniCpm(Granite):
    """The shape of a MiniCPM."""

    family = "minicpm"
    model_types: ClassVar[tuple[str, ...]] = ("minicpm",)
    transformers_class: ClassVar[str | None] = None

    @classmethod
    def from_config(cls, values: dict[str, Any], label: str) -> Self:
        plain, long = split_longrope({"tie_word_embeddings": True, **values})
        config = Config(plain, label)
        shape = cls.fields_of(config, RELATIVES["minicpm"], label)
        depth = config.number("scale_depth", 1.0) / shape["layers"] ** 0.5
        embedding, base = config.number("scale_emb", 1.0), config.count("dim_model_base", 1)
        if not depth or not embedding:
            raise ValueError("scale_depth or scale_emb is 0")
        if long is not None:
            shape["rotary"] = long.applied(shape["rotary"])
            shape["positions"] = min(shape["positions"], long.positions)
        for key, value in FIXED.items():
            config.must_be(key, value)
        config.refuse_the_rest(harmless={*HARMLESS, "mup_denominator"})
        return cls(
            **shape,
            embedding_factor=embedding,
            residual_factor=depth,
            logit_divisor=shape["width"] / base,
        )
