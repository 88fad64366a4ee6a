"""Granite 3 and 4 (dense): a Llama with a multiplier in four places.

Embeddings, what blocks add to the residual stream, attention scores and logits are multiplied by
numbers of the config. All but the scores' are multiplied into weights at the export, so the graphs
are a Llama's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from edgespec_export.checkpoint.weights import Weights
from edgespec_export.families.llama import Llama
from edgespec_export.families.model_config import Config

__all__ = ["Granite"]

_WRITES_RESIDUAL = re.compile(
    r"model\.layers\.\d+\.(self_attn\.o_proj|mlp\.down_proj)\.(weight|bias)"
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
    def from_config(cls, values: dict[str, object], label: str) -> Self:
        config = Config(values, label)
        embedding, residual, scores, logits = (
            _positive(config, name)
            for name in (
                "embedding_multiplier",
                "residual_multiplier",
                "attention_multiplier",
                "logits_scaling",
            )
        )
        own = {"embedding_multiplier", "residual_multiplier", "attention_multiplier"}
        rest = {
            name: value
            for name, value in values.items()
            if name not in own and name != "logits_scaling"
        }
        llama = Llama.from_config({**rest, "model_type": "llama"}, label)
        shape = {field.name: getattr(llama, field.name) for field in fields(llama)}
        shape["heads"] = replace(llama.heads, scale=scores)
        return cls(
            **shape,
            embedding_factor=embedding,
            residual_factor=residual,
            logit_divisor=logits,
        )

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
