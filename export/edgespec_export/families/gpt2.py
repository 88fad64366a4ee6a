"""GPT-2: learned positions, layer norms with biases, an ungated feed-forward, a tied head.

Radford et al. (2019), "Language Models are Unsupervised Multitask Learners".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgespec_export.checkpoint.weights import Weights
from edgespec_export.components.attention.heads import Heads
from edgespec_export.components.blocks.block import AttentionBlock, Block, FeedForwardBlock
from edgespec_export.components.blocks.feed_forward import Ungated
from edgespec_export.components.blocks.self_attention import SelfAttention
from edgespec_export.components.linear import Linear
from edgespec_export.components.norms.layer_norm import LayerNorm
from edgespec_export.components.number_format import NumberFormat
from edgespec_export.components.positions import Angles, Positions, Rotary
from edgespec_export.families.decoder_only import DecoderOnly
from edgespec_export.families.model_config import Config
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["Gpt2"]

PREFIX = "transformer."  # some checkpoints have names without it
POSITION_TABLE = f"{PREFIX}wpe.weight"
HARMLESS = {
    "attn_pdrop",
    "embd_pdrop",
    "resid_pdrop",
    "n_ctx",
    "reorder_and_upcast_attn",  # a precision, and everything here is float32
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
}


@dataclass(frozen=True, kw_only=True)
class Gpt2(DecoderOnly):
    """The shape of a GPT-2.

    Attributes:
        activation: of the feed-forward.
    """

    family = "gpt2"
    model_types = ("gpt2",)
    table, head = f"{PREFIX}wte.weight", "lm_head.weight"
    # Causal masks, which follow from the number of positions, and a copy of a tied head.
    redundant = re.compile(r"transformer\.h\.\d+\.attn\.(masked_)?bias|lm_head\.weight")

    activation: str

    @classmethod
    def from_config(cls, values: dict[str, Any], label: str) -> Self:
        config = Config(values, label)
        heads, width = config.count("n_head", 12), config.count("n_embd", 768)
        size = width // heads
        scaled = config.flag("scale_attn_weights", True)
        shape = cls(
            label=label,
            vocab_size=config.count("vocab_size", 50257),
            width=width,
            layers=config.count("n_layer", 12),
            heads=Heads(heads, heads, size, scale=size**-0.5 if scaled else 1.0),
            epsilon=config.number("layer_norm_epsilon", 1e-5),
            activation=config.activation("activation_function", "gelu_new"),
            tied_head=config.flag("tie_word_embeddings", True),
            positions=config.count("n_positions", 1024),
        )
        config.must_be("add_cross_attention", False)
        config.must_be("is_encoder_decoder", False)
        config.must_be("scale_attn_by_inverse_layer_idx", False)
        config.get("n_inner")  # the matrices themselves have it
        config.refuse_the_rest(harmless=HARMLESS)
        return shape

    def view(self, weights: Weights) -> Weights:
        return _Transposed(weights)

    def layer(self, index: int) -> tuple[Block, ...]:
        at = f"{PREFIX}h.{index}"
        attention = SelfAttention(index, self.heads)
        return (
            AttentionBlock(
                name=f"{at}.attn",
                norm=self._norm(f"{at}.ln_1"),
                in_proj=Linear.named(f"{at}.attn.c_attn", bias=True, widths=attention.widths),
                mixer=attention,
                out_proj=Linear.named(f"{at}.attn.c_proj", bias=True),
            ),
            FeedForwardBlock(
                name=f"{at}.mlp",
                norm=self._norm(f"{at}.ln_2"),
                in_proj=Linear.named(f"{at}.mlp.c_fc", bias=True),
                activation=Ungated(self.activation),
                out_proj=Linear.named(f"{at}.mlp.c_proj", bias=True),
            ),
        )

    @property
    def last_norm(self) -> LayerNorm:
        return self._norm(f"{PREFIX}ln_f")

    def embedding(
        self, g: Graph, tokens: ir.Value, positions: Positions, number_format: NumberFormat
    ) -> ir.Value:
        """The row of a token plus the row of its position, both from tables of the checkpoint."""
        # A padded call may have one row after the last position.
        rows = positions.limited(g, self.positions - 1)
        learned = g.op.Gather(g.weight(POSITION_TABLE), rows, axis=0)
        return g.op.Add(number_format.table(g, tokens, self.table), learned)

    def encodings(self, g: Graph, positions: Positions) -> list[Angles]:
        """Attention knows no positions: it rotates by angles of 0."""
        frequencies = np.zeros(self.heads.size // 2, np.float32)
        return [Rotary(frequencies, self.positions).emit(g, positions)] * self.layers

    def _norm(self, name: str) -> LayerNorm:
        return LayerNorm(f"{name}.weight", f"{name}.bias", self.epsilon)


class _Transposed:
    """The checkpoint with matrices [out, in], which GPT-2 stores as [in, out] (`Conv1D`), and with
    names that all have the prefix."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        stored = list(weights.names())
        self._stored = {
            name if name.startswith((PREFIX, "lm_head.")) else PREFIX + name: name
            for name in stored
        }

    def names(self) -> list[str]:
        return list(self._stored)

    def shape(self, name: str) -> tuple[int, ...]:
        shape = self._weights.shape(self._stored.get(name, name))
        return shape[::-1] if _is_transposed(name) else shape

    def read(self, name: str) -> npt.NDArray[np.generic]:
        tensor = self._weights.read(self._stored.get(name, name))
        return tensor.T if _is_transposed(name) else tensor


def _is_transposed(name: str) -> bool:
    return name.endswith((".c_attn.weight", ".c_proj.weight", ".c_fc.weight"))
