"""Granite 3 and 4 (dense): a Llama with a multiplier in four places.

Embeddings, what blocks add to the residual stream, attention scores and logits are multiplied by
numbers of the config. All but the scores' are multiplied into weights at the export, so the graphs
are a Llama's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from edgespec_export.checkpoint.weights import Weights
from edgespec_export.families.llama_like.llama import HARMLESS, Llama
from edgespec_export.families.llama_like.llama_kinds import RELATIVES, LlamaKind
from edgespec_export.families.model_config import Config

__all__ = ["Granite"]

_WRITES_RESIDUAL = re.compile(
    r"model\.layers\.\d+\.(self_attn\.o_proj|mlp\.down_proj|shared_mlp\.output_linear)\.(weight|bias)"
)


@dataclass(frozen=True, kw_only=True)
class Granite(Llama):
    """The shape of a Granite.

    Attributes:
        embedding_factor, residual_factor: of embeddings, and of what each block adds.
        logit_divisor: of logits.
    """

    family = "granite"
    model_types: ClassVar[tuple[str, ...]] = ("granite",)

    embedding_factor: float
    residual_factor: float
    logit_divisor: float

    @classmethod
    def from_config(cls, values: dict[str, Any], label: str) -> Self:
        config = Config(values, label)
        shape = cls.multiplied_fields_of(config, RELATIVES["granite"], label)
        config.refuse_the_rest(harmless=HARMLESS)
        return cls(**shape)

    @classmethod
    def multiplied_fields_of(cls, config: Config, kind: LlamaKind, label: str) -> dict[str, Any]:
        """The fields of a Granite; keys that are left over are not refused."""
        shape = cls.fields_of(config, kind, label)
        return {
            **shape,
            "heads": replace(shape["heads"], scale=_positive(config, "attention_multiplier")),
            "embedding_factor": _positive(config, "embedding_multiplier"),
            "residual_factor": _positive(config, "residual_multiplier"),
            "logit_divisor": _positive(config, "logits_scaling"),
        }

    def view(self, weights: Weights) -> Weights:
        return _Multiplied(weights, self)

    def factor_of(self, name: str) -> float:
        """What a tensor of the checkpoint is multiplied by.

        A tied head has the embedding's factor, too, which the norm before it takes back.
        """
        if name == self.table:
            return self.embedding_factor
        if name == self.last_norm.weight:
            tied = self.embedding_factor if self.tied_head else 1.0
            return 1 / (self.logit_divisor * tied)
        return self.residual_factor if _WRITES_RESIDUAL.fullmatch(name) else 1.0


def _positive(config: Config, name: str) -> float:
    value = config.number(name, 1.0)
    if not value:
        raise ValueError(f"{name} is 0")
    return value


class _Multiplied:
    """The checkpoint with the config's multipliers in its weights."""

    def __init__(self, weights: Weights, shape: Granite) -> None:
        self._weights = weights
        self._shape = shape
        self.names = weights.names
        self.shape = weights.shape

    def read(self, name: str) -> npt.NDArray[np.generic]:
        tensor, factor = self._weights.read(name), self._shape.factor_of(name)
        return tensor if factor == 1 else tensor.astype(np.float32) * np.float32(factor)
