"""The base of all model families: what an export asks of one.

A family is a dataclass that `from_config` makes of a checkpoint's config. Its blocks are data
(components/blocks/block.py): graphs, the checks of tensors and the number formats all read the same
description. families/__init__.py lists the families.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from edgespec.artifact import graph_io
from edgespec.artifact.graph_io import LayerShape, StateShape
from edgespec.errors import EdgespecError
from edgespec_export.checkpoint.weights import Weights
from edgespec_export.components.attention.attention import Attention
from edgespec_export.components.attention.heads import Heads
from edgespec_export.components.blocks.block import AttentionBlock, Block, Mixer
from edgespec_export.components.norms.norm import NoNorm, RmsNorm
from edgespec_export.components.number_format import NumberFormat
from edgespec_export.components.residual_stream import ResidualStream
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["Family", "Sound"]


@dataclass(frozen=True)
class Sound:
    """What an encoder of sound reads: a log-mel spectrogram.

    Attributes:
        mel_bins: its bands.
        frames: of a window.
    """

    mel_bins: int
    frames: int

    def __str__(self) -> str:
        return f"{self.frames} frames of sound in {self.mel_bins} bands"


@dataclass(frozen=True, kw_only=True)
class Family(ABC):
    """The shape of one model.

    Attributes:
        family: name in the manifest.
        model_types: values of `model_type` in the configs of its models.
        transformers_class: name of the class of transformers that loads the original model; None
            if transformers has none.
        table, head: names of the embedding and, where the two are not tied, of the head.
        copies: names under which checkpoints repeat the embedding.
        redundant: names of tensors that checkpoints contain and no graph needs.
        applied_settings: settings of a generation config that the graphs apply.
        target_inputs: what a draft reads that its target computes, in words; None for a model
            that runs alone.
        reads_target_cache: a draft without a cache, which reads its target's in whatever format.
        graphs: names of its graphs.
        label: name of the model, for messages.
        input_vocab_size: tokens that a draft reads, where it proposes only `vocab_size` of them.
        tied_head: the head is the embedding.
        layers: of the decoder.
        encoder_layers: None for decoder-only models.
        capacity: positions that a cache holds by default.
        positions: the most that a cache may hold; None if there is no limit.
        start_token: first decoder token of an encoder-decoder; None for decoder-only models.
        features: numbers of each position that a target outputs or an EAGLE head reads; else 0.
        block_rows: rows of a block, of a draft that fills blocks of masks.
    """

    family: ClassVar[str]
    model_types: ClassVar[tuple[str, ...]]
    transformers_class: ClassVar[str | None]
    table: ClassVar[str]
    head: ClassVar[str]
    copies: ClassVar[Sequence[str]] = ()
    redundant: ClassVar[re.Pattern[str]]
    applied_settings: ClassVar[frozenset[str]] = frozenset()
    target_inputs: ClassVar[str | None] = None
    reads_target_cache: ClassVar[bool] = False

    label: str
    vocab_size: int
    width: int
    layers: int
    heads: Heads
    epsilon: float
    tied_head: bool
    positions: int | None = None
    encoder_layers: int | None = None
    start_token: int | None = None
    input_vocab_size: int | None = None
    block_rows: int | None = None

    @classmethod
    @abstractmethod
    def from_config(cls, values: dict[str, Any], label: str) -> Self:
        """The family of a checkpoint's config.

        Raises:
            EdgespecError: the config has a key or a value that this family does not know.
            ArithmeticError, AttributeError, KeyError, TypeError, ValueError: a value is of the
                wrong kind.
        """

    @abstractmethod
    def emit(self, g: Graph, number_format: NumberFormat, attention: Attention) -> None:
        """Emits the graph named `g.name`."""

    @abstractmethod
    def blocks(self) -> Iterator[Block]:
        """Every block of every layer, of the encoder first."""

    def has_mixer(self, kind: type[Mixer]) -> bool:
        """Whether the middle of one of its blocks is of this kind."""
        blocks = (block for block in self.blocks() if isinstance(block, AttentionBlock))
        return any(type(block.mixer) is kind for block in blocks)

    @property
    @abstractmethod
    def capacity(self) -> int: ...

    @property
    def features(self) -> int:
        return 0

    @property
    def widest_window(self) -> int | None:
        """The most positions that a layer with a window sees; None without such layers."""
        return None

    @property
    def sound(self) -> Sound | None:
        """What the encoder reads; None for models of text."""
        return None

    @property
    def graphs(self) -> tuple[str, ...]:
        return (graph_io.DECODER,)

    @property
    def cache_layers(self) -> int:
        """Layers of the cache; a decoder layer has one, unless it keeps more of each position."""
        return self.layers

    @property
    def kv_heads(self) -> int:
        return self.heads.kv_count

    @property
    def head_size(self) -> int:
        return self.heads.size

    @property
    def layer_shapes(self) -> tuple[LayerShape, ...]:
        """The shape of each layer of the cache, where they differ."""
        return ()

    @property
    def states(self) -> tuple[StateShape, ...]:
        """What each recurrent layer keeps."""
        return ()

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the embedding and the head, which may be one tensor."""
        return (self.table,) if self.tied_head else (self.table, self.head)

    def with_own_head(self) -> Self:
        """The same model with a head that is not tied to the embedding."""
        return replace(self, tied_head=False)

    def with_generation_settings(self, settings: Mapping[str, Any]) -> Self:
        """The same model with the `applied_settings` of its generation config.

        Raises:
            EdgespecError: one of them cannot be applied.
        """
        return self

    def without_alignment(self) -> Self:
        """The same model without a graph that says when its words are spoken; most have none."""
        return self

    def with_balanced_keys(self) -> Self:
        """The same model with keys that lose less in a cache of 8 bits, where that is known to be
        needed. Its scores have the same bits."""
        return self

    def prepared_target(self, target: Family) -> Family:
        """The target of this draft, which also outputs what the draft reads of it.

        Raises:
            EdgespecError: the two cannot be paired.
        """
        together = f"{target.label} and {self.label} cannot be paired: one"
        if (target.start_token is None) != (self.start_token is None):
            raise EdgespecError(f"{together} has an encoder, one has none")
        if target.sound != self.sound:
            reads = [str(family.sound or "text") for family in (target, self)]
            raise EdgespecError(f"{together} reads {reads[0]}, one {reads[1]}")
        return target

    def with_layer_outputs(self, layers: Sequence[int]) -> Family | None:
        """The same model that also outputs its hidden states after `layers`, counted from 1; None
        if it has no such layers or cannot output them."""
        return None

    def with_encoder_output(self) -> Family | None:
        """The same model whose encoder also outputs its states; None if it cannot."""
        return None

    def proposed_tokens(self, weights: Weights) -> list[int] | None:
        """The target's id of each token that a draft may propose, increasing; None if its
        checkpoint does not have them among its tensors.

        Raises:
            EdgespecError: what the checkpoint has is no such list.
        """
        return None

    def view(self, weights: Weights) -> Weights:
        """The checkpoint's tensors with matrices [out, in] and the layout that the graphs need."""
        return weights

    @property
    def is_rotatable(self) -> bool:
        """Whether formats may rotate the residual stream: RMS norms commute with a rotation.

        If a block's result has a norm, its readers' norms have to stay as well: such models have
        outliers in the stream that only the weights of these norms make small
        (docs/decisions/0027-windows.md).
        """
        others = NoNorm(), NoNorm()
        return all(
            isinstance(block.norm, RmsNorm) and (block.post_norm, block.sum_norm) == others
            for block in self.blocks()
        )

    def shapes(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Names and shapes of tensors that show whether a config belongs to its checkpoint."""
        yield self.table, (self.input_vocab_size or self.vocab_size, self.width)
        for name in self.tables[1:]:
            yield name, (self.vocab_size, self.width)
        for block in self.blocks():
            yield from block.shapes(self.width)

    def residual_stream(self) -> ResidualStream:
        """The tensors that read and write the residual stream, and whether formats may rotate it.

        Where they may not, what a block with RMS norms reads is rotated: a norm of the stream, or
        the stream itself where the block's only norm comes after it.
        """
        blocks = tuple(self.blocks())
        down_projs = frozenset(
            name for block in blocks if block.has_products for name in block.out_proj.weights
        )
        if not self.is_rotatable:
            reads = frozenset(
                name
                for block in blocks
                if any(isinstance(norm, RmsNorm) for norm in block.norms)
                for name in block.in_proj.weights
            )
            return ResidualStream(False, frozenset(), {}, frozenset(), down_projs, reads)
        readers = {
            name: block.norm.weight
            for block in blocks
            if isinstance(block.norm, RmsNorm)
            for name in block.in_proj.weights
        }
        writers = frozenset(
            name for block in blocks for name in (*block.out_proj.weights, *block.out_proj.biases)
        )
        return ResidualStream(True, frozenset(self.tables), readers, writers, down_projs)
