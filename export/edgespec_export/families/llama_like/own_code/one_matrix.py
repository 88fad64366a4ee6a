"""InternLM 2 and Baichuan: Llamas whose queries, keys and values are one matrix.

Their code comes with the checkpoints; transformers has no class. InternLM 2 has other names, and
stores the heads of one key after another (Cai et al. 2024, arXiv 2403.17297). Baichuan 2's head has
rows of length 1 (Yang et al. 2023, arXiv 2309.10305).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from edgespec.errors import EdgespecError
from edgespec_export.checkpoint.weights import Weights, read_rows
from edgespec_export.components.blocks.block import AttentionBlock
from edgespec_export.components.linear import Linear
from edgespec_export.families.fused_heads import HeadsApart
from edgespec_export.families.llama_like.llama import HARMLESS, Llama
from edgespec_export.families.llama_like.llama_kinds import RELATIVES
from edgespec_export.families.model_config import Config
from edgespec_export.families.renamed_tensors import RenamedTensors

__all__ = ["Baichuan", "InternLm2"]

FUSED = "qkv_proj"
_INTERNLM2 = {
    **{"tok_embeddings": "embed_tokens", "attention_norm": "input_layernorm"},
    **{"ffn_norm": "post_attention_layernorm", "attention.wqkv": f"self_attn.{FUSED}"},
    **{"attention.wo": "self_attn.o_proj", "feed_forward.w1": "mlp.gate_proj"},
    **{"feed_forward.w2": "mlp.down_proj", "feed_forward.w3": "mlp.up_proj"},
}
_INTERNLM2_PART = re.compile("|".join(map(re.escape, _INTERNLM2)))
NORMED_HEAD = "z_loss_weight"  # a key that only configs of Baichuan 2 have


@dataclass(frozen=True, kw_only=True)
class OneMatrix(Llama):
    """A Llama whose queries, keys and values are one matrix."""

    transformers_class: ClassVar[str | None] = None

    def _attention_block(self, at: str, index: int) -> AttentionBlock:
        block = super()._attention_block(at, index)
        in_proj = Linear.named(
            f"{block.name}.{FUSED}", bias=self.qkv_bias, widths=block.mixer.widths
        )
        return replace(block, in_proj=in_proj)


@dataclass(frozen=True, kw_only=True)
class InternLm2(OneMatrix):
    """The shape of an InternLM 2 or 2.5."""

    family = "internlm2"
    model_types: ClassVar[tuple[str, ...]] = ("internlm2",)

    @classmethod
    def from_config(cls, values: dict[str, Any], label: str) -> Self:
        config = Config(values, label)
        shape = cls.fields_of(config, RELATIVES["internlm2"], label)
        config.refuse_the_rest(harmless=HARMLESS)
        return cls(**shape)

    def view(self, weights: Weights) -> Weights:
        return HeadsApart(RenamedTensors(weights, _llama_name), FUSED, self.heads)


@dataclass(frozen=True, kw_only=True)
class Baichuan(OneMatrix):
    """The shape of a Baichuan 7B.

    Attributes:
        normed_head: rows of the head are divided by their length.
    """

    family = "baichuan"
    model_types: ClassVar[tuple[str, ...]] = ("baichuan",)

    normed_head: bool

    @classmethod
    def from_config(cls, values: dict[str, Any], label: str) -> Self:
        config = Config(values, label)
        if not config.states("max_position_embeddings"):
            raise EdgespecError(
                f"{label}: config.json has no max_position_embeddings, so this is a Baichuan 13B, "
                "which has ALiBi for positions; edgespec exports only the 7B ones"
            )
        shape = cls.fields_of(config, RELATIVES["baichuan"], label)
        normed_head = config.states(NORMED_HEAD)
        config.must_be("tie_word_embeddings", False)
        config.refuse_the_rest(
            harmless={*HARMLESS, NORMED_HEAD, "_from_model_config", "model_max_length"}
        )
        return cls(**shape, normed_head=normed_head)

    def view(self, weights: Weights) -> Weights:
        named = RenamedTensors(weights, lambda name: name.replace(".W_pack.", f".{FUSED}."))
        return _NormedHead(named, self.head) if self.normed_head else named


def _llama_name(name: str) -> str:
    if name == "output.weight":
        return "lm_head.weight"
    return _INTERNLM2_PART.sub(lambda found: _INTERNLM2[found[0]], name)


class _NormedHead:
    """The checkpoint with the rows of its head divided by their length."""

    def __init__(self, weights: Weights, head: str) -> None:
        self._weights = weights
        self._head = head
        self.names = weights.names
        self.shape = weights.shape

    def read(self, name: str) -> npt.NDArray[np.generic]:
        tensor = self._weights.read(name)
        return _of_length_1(tensor) if name == self._head else tensor

    def read_rows(self, name: str, start: int, stop: int) -> npt.NDArray[np.generic]:
        rows = read_rows(self._weights, name, start, stop)
        return _of_length_1(rows) if name == self._head else rows


def _of_length_1(rows: npt.NDArray[np.generic]) -> npt.NDArray[np.float32]:
    wide = rows.astype(np.float32)
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    normed: npt.NDArray[np.float32] = wide / np.maximum(lengths, np.float32(1e-12))
    return normed
