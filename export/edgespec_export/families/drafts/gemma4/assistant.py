"""Gemma 4's assistant: a draft that attends to its target's keys and values and keeps none.

A row reads the token's embedding in the target and the target's last hidden state before it; where
the target has none yet, the draft's own state. All its layers attend to what the target's last
windowed and global layers wrote, up to the last position that the target has scored, and the row
stands just after that, however many tokens were drafted since. The logits may be those of the
tokens near the hidden state only: its nearest centroids say which. As transformers 5.24 computes it
(`Gemma4AssistantForCausalLM`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np
import onnx_ir as ir

from edgespec.artifact import graph_io
from edgespec.artifact.graph_io import LayerShape
from edgespec.errors import EdgespecError
from edgespec_export.checkpoint.weights import Weights
from edgespec_export.components.attention.attention import Attention
from edgespec_export.components.linear import Linear
from edgespec_export.components.number_format import NumberFormat
from edgespec_export.components.positions import (
    Angles,
    Positions,
    decoder_positions,
    requested_rows,
)
from edgespec_export.components.residual_stream import ResidualStream
from edgespec_export.families.drafts.eagle3.split_weights import STATE, TOKEN, SplitWeights, half
from edgespec_export.families.family import Family
from edgespec_export.families.gemma.gemma4 import Gemma4
from edgespec_export.families.model_config import Config
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["TARGET_TABLE", "Gemma4Assistant"]

TARGET_TABLE = "target.embed_tokens.weight"  # the target's embedding, which the draft reads
BEFORE, AFTER = "pre_projection.weight", "post_projection.weight"
CENTROIDS, ORDER = "masked_embedding.centroids.weight", "masked_embedding.token_ordering"
NEVER = -1e30  # the logit of a token far from the state


@dataclass(frozen=True, kw_only=True)
class Gemma4Assistant(Gemma4):
    """The shape of a Gemma 4 assistant.

    Attributes:
        target_width: of the target's hidden states and its embedding.
        target_layers: by kind of layer, the layer of the target's cache that it reads.
        centroids: groups of tokens; 0: logits are those of all tokens.
        near: how many of them have logits.
    """

    family = "gemma4_assistant"
    model_types: ClassVar[tuple[str, ...]] = ("gemma4_assistant",)
    transformers_class = None
    reads_target_cache = True
    target_inputs = "its target's keys, values and hidden states (an assistant)"
    redundant = re.compile(r"lm_head\.weight|masked_embedding\..*")

    target_width: int
    target_layers: Mapping[str, int]
    centroids: int
    near: int

    @classmethod
    def from_config(cls, values: dict[str, Any], label: str) -> Self:
        config = Config(values, label)
        text = {
            **config.need("text_config"),
            "num_kv_shared_layers": 0,
            "model_type": "gemma4_text",
        }
        text.pop("final_logit_softcapping", None)  # an assistant's logits have no cap
        shape = Gemma4.from_config(text, label)
        if shape.input_size:
            raise ValueError(f"hidden_size_per_layer_input is {shape.input_size}")
        target = config.need("target")
        ordered = config.flag("use_ordered_embeddings", False)
        centroids = config.count("num_centroids", 2048)
        own = {
            **{field.name: getattr(shape, field.name) for field in fields(shape)},
            # The inclusive distance of transformers' mask: one position more than the target's.
            "window": shape.window + 1,
            "keeping_layers": 0,
            "positions": target["positions"],
            "rotary": {
                kind: replace(rotary, positions=target["positions"])
                for kind, rotary in shape.rotary.items()
            },
            "tied_head": config.flag("tie_word_embeddings", True),
            "target_width": config.count("backbone_hidden_size", 1536),
            "target_layers": target["layers"],
            "centroids": centroids if ordered else 0,
            "near": config.count("centroid_intermediate_top_k", 32),
        }
        if ordered and shape.vocab_size % centroids:
            raise ValueError(f"{shape.vocab_size} tokens in {centroids} groups")
        config.refuse_the_rest(harmless={"boi_token_id", "image_token_id", "audio_token_id"})
        return cls(**own)

    @property
    def features(self) -> int:
        return self.target_width

    def prepared_target(self, target: Family) -> Family:
        super().prepared_target(target)
        assert isinstance(target, Gemma4), "an assistant is opened with its target"
        written = target.layer_shapes or (LayerShape(target.kv_heads, target.head_size),)
        for kind, shape in zip(self._kinds, self.layer_shapes, strict=True):
            layer = self.target_layers[kind] if len(written) > 1 else 0
            if written[layer] != shape:
                raise EdgespecError(
                    f"{self.label} reads keys of {shape.kv_heads} heads of {shape.head_size}, and "
                    f"those of {target.label} are {written[layer].kv_heads} of "
                    f"{written[layer].head_size}; pair it with the target it was trained for"
                )
        return target.with_last_state()

    def view(self, weights: Weights) -> Weights:
        return SplitWeights(weights, [BEFORE], self.label)

    # --- what it reads of the target's cache ---

    @property
    def _kinds(self) -> tuple[str, ...]:
        """Kinds of its layers: for each it reads one layer of the target's cache."""
        return tuple(dict.fromkeys(self.kinds))

    @property
    def cache_layers(self) -> int:
        return len(self._kinds)

    @property
    def layer_shapes(self) -> tuple[LayerShape, ...]:
        heads = (self.layer_heads[self.kinds.index(kind)] for kind in self._kinds)
        return tuple(LayerShape(each.kv_count, each.size) for each in heads)

    def cache_layer_of(self, index: int) -> int:
        return self._kinds.index(self.kinds[index])

    def encodings(self, g: Graph, positions: Positions) -> Sequence[Angles]:
        """A row stands one position after the last that it sees."""
        return super().encodings(g, positions.later(g, 1))

    # --- the graph ---

    def emit(self, g: Graph, number_format: NumberFormat, attention: Attention) -> None:
        tokens, positions = decoder_positions(g, layouts=False)
        states = g.input(graph_io.FUSED_STATES, np.float32, ["m", self.target_width])
        embedded = number_format.table(g, tokens, TARGET_TABLE)
        embedded = g.op.Mul(embedded, g.constant(self.target_width**0.5, np.float32))
        parts = [
            number_format.down_proj(g, x, Linear((half(BEFORE, part),)))
            for part, x in ((TOKEN, embedded), (STATE, states))
        ]
        for layer, kind in enumerate(self._kinds):
            attention.borrowed(g, self.layer_heads[self.kinds.index(kind)], layer)
        g.metadata[graph_io.TARGET_LAYERS] = ",".join(
            str(self.target_layers[kind]) for kind in self._kinds
        )
        x = self.through_layers(g, g.op.Add(*parts), positions, number_format, attention)[-1]
        hidden = number_format.down_proj(g, self.last_norm.emit(g, x), Linear((AFTER,)))
        g.output(graph_io.HIDDEN, hidden, np.float32, ["m", self.target_width])
        if self.centroids:
            self._emit_near_logits(g, x, number_format)
        else:
            self.emit_logits(g, x, number_format)

    def _emit_near_logits(self, g: Graph, x: ir.Value, number_format: NumberFormat) -> None:
        """Logits of the tokens in the groups whose centroids are nearest; of others `NEVER`."""
        normed = self.last_norm.emit(g, requested_rows(g, x))  # [rows, width]
        (near,) = number_format.linear(g, normed, Linear((CENTROIDS,)))
        _, groups = g.largest(near, g.ints(self.near))
        tokens = g.op.Gather(g.stored(ORDER, lambda: self._groups(g)), groups, axis=0)
        tokens = g.op.Reshape(tokens, g.ints(-1, self.near * self.vocab_size // self.centroids))
        rows = number_format.table(g, g.op.Reshape(tokens, g.ints(-1)), self.table)
        shape = g.op.Concat(g.op.Shape(tokens), g.ints(self.width), axis=0)
        scores = g.op.MatMul(g.op.Reshape(rows, shape), g.op.Unsqueeze(normed, g.ints(2)))
        never = g.constant(NEVER, np.float32)
        every = g.op.Concat(g.op.Shape(tokens, end=1), g.ints(self.vocab_size), axis=0)
        logits = g.op.ScatterElements(
            g.op.Expand(never, every), tokens, g.op.Squeeze(scores, g.ints(2)), axis=1
        )
        g.output(graph_io.LOGITS, logits, np.float32, ["rows", self.vocab_size])

    def _groups(self, g: Graph) -> Any:
        """The tokens of each group, int64 [centroids, tokens]; float32 holds their ids exactly."""
        tokens = g.weights.checkpoint_tensor(ORDER).astype(np.int64)
        if not np.array_equal(np.sort(tokens), np.arange(self.vocab_size)):
            raise EdgespecError(
                f"{self.label}: tensor {ORDER!r} does not order {self.vocab_size} tokens; download "
                "it again"
            )
        return tokens.reshape(self.centroids, -1)

    def shapes(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        yield from super().shapes()
        yield TARGET_TABLE, (self.vocab_size, self.target_width)
        for part in (TOKEN, STATE):
            yield half(BEFORE, part), (self.width, self.target_width)
        yield AFTER, (self.target_width, self.width)
        if self.centroids:
            yield CENTROIDS, (self.centroids, self.width)

    def residual_stream(self) -> ResidualStream:
        """What is projected has outliers, so a graph rotates it."""
        own = super().residual_stream()
        projections = {half(BEFORE, TOKEN), half(BEFORE, STATE), AFTER}
        return replace(own, down_projs=own.down_projs.union(projections))
