"""BLOOM: GPT-2's blocks with a norm of the embeddings, and ALiBi in the place of positions.

ALiBi adds to each score the key's position times a slope of the head (Press et al. 2021, arXiv
2108.12409). BigScience (2022, arXiv 2211.05100).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgespec_export.checkpoint.weights import Weights
from edgespec_export.components.attention.heads import Heads
from edgespec_export.components.blocks.block import Block
from edgespec_export.components.number_format import NumberFormat
from edgespec_export.components.positions import Positions
from edgespec_export.families.fused_heads import HeadsApart
from edgespec_export.families.layer_normed.layer_normed import FUSED, LayerNormed
from edgespec_export.families.model_config import Config, with_newer_keys
from edgespec_export.families.renamed_tensors import RenamedTensors
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["Bloom", "alibi_slopes"]

PREFIX = "transformer."  # published checkpoints have names without it
TRAINED = 2048  # positions of training; ALiBi has no limit
# Names of keys that older configs have.
OLDER_NAMES = {
    **{"n_embed": "hidden_size", "num_attention_heads": "n_head", "num_hidden_layers": "n_layer"},
}
HARMLESS = {
    *("slow_but_exact", "seq_length", "attention_softmax_in_fp32", "bias_dropout_fusion"),
    *("masked_softmax_fusion", "unk_token_id", "offset_alibi", "n_inner"),
}


@dataclass(frozen=True, kw_only=True)
class Bloom(LayerNormed):
    """The shape of a BLOOM."""

    family = "bloom"
    model_types: ClassVar[tuple[str, ...]] = ("bloom",)
    table, head = f"{PREFIX}word_embeddings.weight", "lm_head.weight"
    redundant = re.compile(r"lm_head\.weight")  # a copy of a tied head

    @classmethod
    def from_config(cls, values: dict[str, Any], label: str) -> Self:
        config = Config(with_newer_keys(values, OLDER_NAMES), label)
        count, width = config.count("n_head", 8), config.count("hidden_size", 64)
        size = width // count
        if count * size != width:
            raise ValueError(f"hidden_size is {width}, with {count} heads")
        shape = cls(
            label=label,
            vocab_size=config.count("vocab_size", 250880),
            width=width,
            layers=config.count("n_layer", 2),
            heads=Heads(count, count, size, scale=size**-0.5),
            epsilon=config.number("layer_norm_epsilon", 1e-5),
            activation="gelu_new",
            tied_head=config.flag("tie_word_embeddings", True),
            positions=config.count("seq_length", TRAINED),
        )
        config.must_be("apply_residual_connection_post_layernorm", False)
        config.must_be("is_encoder_decoder", False)
        config.refuse_the_rest(harmless=HARMLESS)
        return shape

    def view(self, weights: Weights) -> Weights:
        return HeadsApart(RenamedTensors(weights, _whole_name), FUSED, self.heads)

    @property
    def last_norm_name(self) -> str:
        return f"{PREFIX}ln_f"

    def layer(self, index: int) -> tuple[Block, ...]:
        return self._fused_layer(f"{PREFIX}h.{index}", "self_attention", index)

    def embedding(
        self, g: Graph, tokens: ir.Value, positions: Positions, number_format: NumberFormat
    ) -> ir.Value:
        rows = super().embedding(g, tokens, positions, number_format)
        return self._norm(f"{PREFIX}word_embeddings_layernorm").emit(g, rows)

    def encodings(self, g: Graph, positions: Positions) -> list[ir.Value]:
        """Each key's position times the head's slope, [1, heads, m, total]."""
        keys = positions.keys(g)
        slopes = g.constant(alibi_slopes(self.heads.count)[:, None, None], np.float32)
        bias = g.op.Mul(slopes, g.op.Cast(keys, to=ir.DataType.FLOAT))  # [heads, 1, total]
        shape = g.op.Concat(g.ints(self.heads.count), positions.count, g.ints(1), axis=0)
        every_row = g.op.Expand(bias, shape)
        return [g.op.Unsqueeze(every_row, g.ints(0))] * self.layers


def alibi_slopes(heads: int) -> npt.NDArray[np.float32]:
    """The slope of each head, a geometric series; between powers of two every other one of the
    next power's follows."""
    whole = 2 ** math.floor(math.log2(heads))
    base = np.float32(2.0 ** -(2.0 ** -(math.log2(whole) - 3)))
    slopes = base ** np.arange(1, whole + 1, dtype=np.float32)
    finer = np.float32(2.0 ** -(2.0 ** -(math.log2(2 * whole) - 3)))
    rest = finer ** np.arange(1, 1 + 2 * (heads - whole), 2, dtype=np.float32)
    return np.concatenate([slopes, rest]).astype(np.float32)


def _whole_name(name: str) -> str:
    return name if name.startswith((PREFIX, "lm_head.")) else PREFIX + name
