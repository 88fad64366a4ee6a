"""UMT5: a T5 whose layers each have a table of distances of their own.

Chung et al. (2023, arXiv 2304.09151).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from edgespec_export.components.blocks.block import Mixer
from edgespec_export.components.blocks.self_attention import EncoderAttention, SelfAttention
from edgespec_export.components.positions import Positions, RelativeBias
from edgespec_export.families.t5 import T5
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["UMT5"]


@dataclass(frozen=True, kw_only=True)
class UMT5(T5):
    """The shape of a UMT5."""

    family = "umt5"
    model_types: ClassVar[tuple[str, ...]] = ("umt5",)

    def encoder_bias(self, g: Graph, tokens: ir.Value) -> ir.Value:
        """The distances, int64 [source, source], of which each layer makes its bias."""
        return self.bias("encoder", 0).distances_of_encoder(g, tokens)

    def decoder_encoding(self, g: Graph, positions: Positions) -> ir.Value:
        """The distances, int64 [m, total], of which each layer makes its bias."""
        return self.bias("decoder", 0).distances_of_decoder(g, positions)

    def encoder_attention(self, layer: int) -> Mixer:
        return EncoderAttention(self.heads, bias=self.bias("encoder", layer))

    def decoder_attention(self, layer: int) -> Mixer:
        return SelfAttention(layer, self.heads, bias=self.bias("decoder", layer))

    def biases(self) -> Iterator[RelativeBias]:
        yield from (self.bias("encoder", layer) for layer in range(self.encoder_layers))
        yield from (self.bias("decoder", layer) for layer in range(self.layers))
