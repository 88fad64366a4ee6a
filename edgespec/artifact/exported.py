"""A model of an exported folder, its variants, and what its numbers may be."""

from __future__ import annotations

from dataclasses import dataclass, field

from edgespec.artifact.graph_io import (
    ATTENTION_FORMATS,
    CACHE_FORMATS,
    DECODER,
    MAX_ROWS,
    LayerShape,
    StateShape,
)
from edgespec.artifact.row_invariance import Distance, RowInvariance
from edgespec.artifact.static_calls import StaticCalls
from edgespec.artifact.typed_json import LATER
from edgespec.costs.row_cost import RowCost
from edgespec.errors import shortened

__all__ = ["LIMITS", "Exported", "FusedBlocks", "Variant", "check_model"]

BLOCK = "block"  # the family of block drafts
ASSISTANT = "gemma4_assistant"  # the family of drafts that attend to their target's cache
READING = ("eagle", BLOCK, ASSISTANT)  # families of drafts that read their target's hidden states
SPEECH_FAMILY = "whisper"  # its models read sound, and have a speech format
SHARED_ENCODER = "shared_encoder"  # the family of drafts that read their target's encoder

# The largest numbers of a model that are accepted: what a reader allocates grows with them.
LIMITS = {
    "vocab_size": 10**8,
    "layers": 10_000,
    "kv_heads": 10_000,
    "head_size": 65_536,
    "capacity": 10**9,
}
MOST_NUMBERS = 10**9  # of a recurrent layer's state


@dataclass(frozen=True)
class FusedBlocks:
    """How many blocks of a graph's layers one operator each computes.

    Attributes:
        fused: blocks that are one operator.
        total: blocks of the graph's layers. Those that are not fused run as several operators,
            more slowly where kernels are installed.
    """

    fused: int
    total: int

    def __post_init__(self) -> None:
        if not 0 <= self.fused <= self.total:
            raise ValueError(f"fused is {self.fused}, total {self.total}")


@dataclass(frozen=True)
class Variant:
    """One set of graphs of a model: one number format for its weights and one for its cache.

    Attributes:
        graphs: graph name to file, relative to the manifest's folder. Variants that differ only in
            their cache share the other files.
        weights_format: number format of the weights, such as "int8": a name for people. What
            follows from it is in `run_by_kernels` and `row_cost`.
        cache_format: of the self-attention's keys and values, one of `CACHE_FORMATS`.
        attention_format: of the numbers whose products self-attention adds up, "fp32" or "bf16":
            with edgespec's kernels, which round queries, keys, weights and values to them.
        run_by_kernels: with edgespec's kernels, no product of the weights is the runtime's own. So
            rows of any number of texts keep their bits, on every machine with these kernels.
        row_cost: what one more position costs in a call, where it was not measured.
        row_invariance: measured by the export; None until then.
        distance: from the "fp32" variant, where that was exported too.
        blocks: graph name to the blocks that are fused, for number formats with operators that
            compute whole blocks.
        static: of graphs with fixed shapes, which calls there are; None of others.
    """

    graphs: dict[str, str]
    weights_format: str
    cache_format: str
    attention_format: str = field(default="fp32", metadata=LATER)
    run_by_kernels: bool = False
    row_cost: RowCost = field(default_factory=RowCost)
    row_invariance: RowInvariance | None = None
    distance: Distance | None = None
    blocks: dict[str, FusedBlocks] = field(default_factory=dict)
    static: StaticCalls | None = None


@dataclass(frozen=True)
class Exported:
    """A target or a draft: what a runtime must know to run its graphs.

    Attributes:
        family: "t5", "llama", … or, of a draft only, "eagle", "block" or "shared_encoder".
        source: where the weights come from, for people.
        vocab_size: width of a row of logits.
        layers: of the cache, each with one pair of buffers; a decoder layer has one or more.
        kv_heads: heads of those buffers.
        head_size: width of a head.
        layer_shapes: the shape of each layer of the cache, where they differ; empty where all have
            `kv_heads` and `head_size`.
        capacity: positions a cache should hold unless the caller says otherwise.
        positions: that the model can tell apart, the most a cache may hold; None if no limit.
        start_token: first decoder token of an encoder-decoder; None for decoder-only models.
        variants: name to variant; the first is the default.
        vocabulary: of a draft that has only some of its target's tokens: the file that maps them,
            relative to the manifest's folder.
        features: width of the hidden states that a target returns for each position, or that an
            EAGLE head, a block draft or one with its target's encoder reads; 0 for others.
        input_vocab_size: tokens that it reads, of a draft that reads more than it may propose: a
            published head, with all of its target's. None for others.
        states: what each recurrent layer keeps.
        block_rows: rows of a block, of a draft that fills blocks of masks; None for others.
    """

    family: str
    source: str
    vocab_size: int
    layers: int
    kv_heads: int
    head_size: int
    capacity: int
    positions: int | None
    start_token: int | None
    variants: dict[str, Variant]
    vocabulary: str | None = None
    features: int = 0
    input_vocab_size: int | None = None
    layer_shapes: tuple[LayerShape, ...] = ()
    states: tuple[StateShape, ...] = ()
    block_rows: int | None = None

    @property
    def cache_shapes(self) -> tuple[LayerShape, ...]:
        """The shape of each layer of the cache."""
        return self.layer_shapes or (LayerShape(self.kv_heads, self.head_size),) * self.layers

    @property
    def read_tokens(self) -> int:
        """Tokens that it can read: ids from 0."""
        return self.vocab_size if self.input_vocab_size is None else self.input_vocab_size

    @property
    def is_encoder_decoder(self) -> bool:
        """The prompt goes through an encoder, and the decoder begins with `start_token`."""
        return self.start_token is not None and not self.is_speech

    @property
    def is_speech(self) -> bool:
        """The encoder reads sound; a prompt is the decoder's."""
        return self.family == SPEECH_FAMILY

    @property
    def is_eagle_head(self) -> bool:
        """A draft that reads its target's hidden states, so that it runs with its target only."""
        return self.family in READING

    @property
    def shares_encoder(self) -> bool:
        """A draft that reads its target's encoder, so that it runs with its target only."""
        return self.family == SHARED_ENCODER

    @property
    def reads_target_cache(self) -> bool:
        """A draft without a cache, which attends to its target's."""
        return self.family == ASSISTANT

    @property
    def is_block_draft(self) -> bool:
        """An EAGLE head that drafts several tokens with one call."""
        return self.family == BLOCK


def check_model(model: Exported) -> None:
    """Raises ValueError where a number of a model is out of range, or a graph is missing."""
    for name, limit in LIMITS.items():
        value = getattr(model, name)
        if not 1 <= value <= limit:
            raise ValueError(f"{name} is {shortened(value)}, not 1 to {limit}")
    if model.layer_shapes and len(model.layer_shapes) != model.layers:
        raise ValueError(f"layer_shapes has {len(model.layer_shapes)} of {model.layers} layers")
    for shape in model.layer_shapes:
        for name in ("kv_heads", "head_size"):
            value = getattr(shape, name)
            if not 1 <= value <= LIMITS[name]:
                raise ValueError(
                    f"{name} of a layer is {shortened(value)}, not 1 to {LIMITS[name]}"
                )
    for kept in model.states:
        if not (1 <= kept.state <= MOST_NUMBERS and 1 <= kept.row <= MOST_NUMBERS):
            raise ValueError(
                f"states has {shortened(kept.state)} and {shortened(kept.row)} numbers"
            )
    if not 0 <= model.features <= LIMITS["vocab_size"]:
        raise ValueError(f"features is {shortened(model.features)}")
    if not model.vocab_size <= model.read_tokens <= LIMITS["vocab_size"]:
        raise ValueError(
            f"input_vocab_size is {shortened(model.read_tokens)}, not {model.vocab_size} to "
            f"{LIMITS['vocab_size']}"
        )
    if model.positions is not None and model.positions < 1:
        raise ValueError(f"positions is {shortened(model.positions)}, not 1 or more")
    if model.block_rows is not None and not 1 <= model.block_rows <= MAX_ROWS:
        raise ValueError(f"block_rows is {shortened(model.block_rows)}, not 1 to {MAX_ROWS}")
    if model.start_token is not None and not 0 <= model.start_token < model.vocab_size:
        raise ValueError(f"start_token is {shortened(model.start_token)}")
    if not model.variants:
        raise ValueError(f"{model.source} has no variant")
    for name, variant in model.variants.items():
        if DECODER not in variant.graphs:
            raise ValueError(f"the variant {name!r} of {model.source} has no {DECODER}")
        if variant.cache_format not in CACHE_FORMATS:
            raise ValueError(f"cache_format is {shortened(variant.cache_format)}")
        if variant.attention_format not in ATTENTION_FORMATS:
            raise ValueError(f"attention_format is {shortened(variant.attention_format)}")
        missing = variant.static.graph_names - variant.graphs.keys() if variant.static else ()
        if missing:
            raise ValueError(f"the variant {name!r} of {model.source} has no {min(missing)}")
