"""Names, types and shapes of the exported graphs' inputs and outputs.

The exporter writes them, runtimes read them. docs/reference/folder-format.md says the same for
readers in other languages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = [
    "AHEAD",
    "ALIGNMENT",
    "ATTENTION_FORMATS",
    "BLOCK",
    "CACHE_FORMATS",
    "CONFIDENCE",
    "DECODER",
    "ENCODER",
    "FEATURES",
    "FEATURE_FUSION",
    "FUSED_STATES",
    "HIDDEN",
    "KEY_POSITIONS",
    "LAYOUTS",
    "LAYOUTS_SINCE",
    "LOGITS",
    "LOG_MEL",
    "MASK",
    "MAX_ROWS",
    "OUTPUT_MODE",
    "PAST_LENGTH",
    "RECENT_ROWS",
    "ROW_POSITIONS",
    "SKIP",
    "SLOT_LOGITS",
    "SLOT_STATES",
    "SOURCES",
    "SPARE_POSITIONS",
    "STATE_STEPS",
    "TARGET_LAYERS",
    "TOKENS",
    "TOP_K",
    "TOP_LOGITS",
    "TOP_PROBABILITIES",
    "TOP_TOKENS",
    "TRANSITION",
    "Buffer",
    "LayerShape",
    "StateShape",
    "cache_buffers",
    "cross_names",
    "layer_buffers",
    "past_names",
    "present_names",
    "recent_rows_names",
    "scale_name",
    "state_names",
]

# Graphs of a variant. A decoder-only model has no encoder; only an EAGLE head or a block draft has
# feature fusion, and only a block draft has transitions (tokens to logits: what each adds to those
# of the next token; of a block of masks: its row's logits to those after this token).
ENCODER = "encoder"
FEATURE_FUSION = "feature_fusion"
DECODER = "decoder"
TRANSITION = "transition"
# Of a speech model whose checkpoint names the heads of its cross-attention that follow the sound:
# TOKENS of a whole text and `cross_names` to the output of the same name, float32 [heads, m,
# source]: the shares of a head's attention that the positions of the sound have after each token.
ALIGNMENT = "alignment"

# Inputs and outputs. m: positions of a call; V: vocabulary size; k: 1 or TOP_K.
TOKENS = "tokens"  # int64 [m]: token ids (encoder: the whole source)
# float32 [mel bins, frames]: what the encoder of a speech model reads instead of tokens, a window
# of sound as its log-mel spectrogram (edgespec/audio/log_mel.py).
LOG_MEL = "log_mel"
PAST_LENGTH = "past_length"  # int64 [1]: valid positions in the cache before this call
# A graph for a device is told positions instead of computing them from PAST_LENGTH, which it lacks:
# those of the rows of a call, past_length … past_length + m - 1, and those of the cache's buffers,
# 0 … capacity - 1. int32 [m] and [capacity].
ROW_POSITIONS = "row_positions"
KEY_POSITIONS = "key_positions"
# int64 [n, 3], optional: where the last n rows of a call stand, each as start, position, index. The
# row sees cache positions start … start + position - 1 and then its own, which is written at index.
# So a row may be of another text of the same cache, or an alternative to a row of a line
# (docs/decisions/0036-rows.md). It needs past_length + m > position. Default: none. Needs kernels.
LAYOUTS = "layouts"
# In the decoder's metadata: the first release of the kernels that follow layouts everywhere in the
# graph, "0.10". Default: any that are used.
LAYOUTS_SINCE = "layouts_since"
# int64 [n, 2], optional: which part of the source the last n rows of a call see, as start, count.
# Default: none, all rows see all of it. Needs kernels.
SOURCES = "sources"
SKIP = "skip"  # int64 [1]: leading rows without logits (m - 1 at most, for a prefill)
LOGITS = "logits"  # float32 [m - skip, V]
# int64 [1], optional: what a graph returns of each row. 0, the default: its logits. 1: its arg-max.
# 2: its TOP_K best tokens with their probabilities. Outputs that were not asked for have no rows.
OUTPUT_MODE = "output_mode"
TOP_TOKENS = "top_tokens"  # int64 [m - skip, k]: the tokens with the largest logits
TOP_LOGITS = "top_logits"  # float32 [m - skip, k]
TOP_PROBABILITIES = "top_probabilities"  # float32 [m - skip, k]: softmax over the whole vocabulary
TOP_K = 3
# A target with an EAGLE head returns hidden states of some layers; feature fusion reads them.
FEATURES = "features"  # float32 [m, F]
FUSED_STATES = "fused_states"  # float32 [m, width]: output of feature fusion, input of the head
HIDDEN = "hidden"  # float32 [m, width]: the head's own estimate of the next fused state
# A block draft. int64 [1], optional: how many of the last rows are ahead of the text. They repeat
# the token and the state of the row before them. Default: 0.
AHEAD = "ahead"
BLOCK = "block"  # in the decoder's metadata: how many tokens one call drafts
# A draft that fills a block of masks (`Exported.block_rows`). Its decoder's first m - block_rows
# rows are the text's, of which it reads fused states and no tokens; the last are the block: the
# text's last token and masks. Logits are those of the drafted tokens, as many as `BLOCK` says.
MASK = "mask"  # in the decoder's metadata: the token of a mask
SLOT_STATES = "slot_states"  # float32 [drafted, width]: hidden states that transitions read
SLOT_LOGITS = "slot_logits"  # float32 [m, V]: what transitions read of rows' logits
# In the metadata of a decoder that reads its target's cache: the layers there that are its layers
# 0, 1, …, with commas between them.
TARGET_LAYERS = "target_layers"
# float32 [m, 1]: probability that a row's token is accepted if those drafted before it are.
CONFIDENCE = "confidence"


# A model with recurrent layers. int64 [n, 6]: what a call does with the states of each of its n
# sequences, as start, rows, taken, made, state_length, kept_length. `start` is that of the layouts
# of its rows (0 without layouts), `rows` counts in past_rows, `taken` and `made` in past_state and
# present_state. The states that the call takes are those after state_length positions, those that
# it makes are after kept_length: state_length ≤ p, and state_length ≤ kept_length ≤ p + the rows of
# the sequence, whose first is at position p (docs/decisions/0045-states.md). n > 1 needs kernels.
STATE_STEPS = "state_steps"
# Positions whose inputs a recurrent layer keeps, so that states can be made of them again.
RECENT_ROWS = 64

# Row invariance is measured for calls of up to this many positions: γ = 16 and the bonus token.
MAX_ROWS = 17

# Positions of the cache that a call may overwrite after its own, whatever its number of rows
# (docs/decisions/0030-spare-row.md).
SPARE_POSITIONS = 1

# Cache format to the numpy type of its keys and values.
CACHE_FORMATS = {"fp32": "float32", "fp16": "float16", "int8": "int8"}
ATTENTION_FORMATS = ("fp32", "bf16")  # of the numbers whose products self-attention adds up


def past_names(layer: int) -> tuple[str, str]:
    """Self-attention keys and values: [1, kv_heads, capacity, head_size], inputs.

    `layer` counts layers of the cache. A convolution keeps its inputs there, as if they were keys
    and values, in as many layers as they fill (docs/decisions/0034-convolutions.md).

    The same buffers are bound to `present_names`: a call writes positions
    past_length … past_length + m - 1, and may touch `SPARE_POSITIONS` after them.
    """
    return f"past_key.{layer}", f"past_value.{layer}"


def present_names(layer: int) -> tuple[str, str]:
    """The same buffers as outputs."""
    return f"present_key.{layer}", f"present_value.{layer}"


def scale_name(buffer: str) -> str:
    """Of an int8 buffer's scales: float32 [1, kv_heads, capacity, 1], one for each position."""
    return f"{buffer}.scale"


def cross_names(layer: int) -> tuple[str, str]:
    """Cross-attention keys and values: float32 [1, heads, source length, head_size].

    Outputs of the encoder, inputs of the decoder: computed once for each source.
    """
    return f"cross_key.{layer}", f"cross_value.{layer}"


def state_names(layer: int) -> tuple[str, str]:
    """A recurrent layer's states, float32 [slots, numbers], as input and as output.

    `layer` counts recurrent layers. With one slot the two are different memory; with several, which
    needs kernels, the same, and a call writes those that it makes.
    """
    return f"past_state.{layer}", f"present_state.{layer}"


def recent_rows_names(layer: int) -> tuple[str, str]:
    """The inputs of a recurrent layer at its latest positions: float32 [sequences, RECENT_ROWS,
    width], that of a position at the position modulo `RECENT_ROWS`; as input and as output.

    Both are bound to the same memory. A call reads positions state_length … p - 1 and writes
    positions max(p, kept_length) … p + m - 1 (`STATE_STEPS`): those that it reads and those that it
    writes must be at most `RECENT_ROWS`.
    """
    return f"past_rows.{layer}", f"present_rows.{layer}"


@dataclass(frozen=True)
class LayerShape:
    """The shape of a layer of the cache.

    Attributes:
        kv_heads: its heads.
        head_size: width of a head.
    """

    kv_heads: int
    head_size: int


@dataclass(frozen=True)
class StateShape:
    """What a recurrent layer keeps.

    Attributes:
        state: numbers of its state.
        row: numbers of a recent position.
    """

    state: int
    row: int


@dataclass(frozen=True)
class Buffer:
    """A part of the cache: [1, heads, capacity, width], input and output in the same memory.

    Attributes:
        past, present: its names as input and as output.
        dtype: numpy's name of its type.
    """

    past: str
    present: str
    dtype: str
    heads: int
    width: int


def cache_buffers(shapes: Sequence[LayerShape], cache: str) -> list[Buffer]:
    """All buffers of a cache with layers of these shapes; `cache` is one of `CACHE_FORMATS`."""
    numbered = enumerate(shapes)
    return [buffer for layer, shape in numbered for buffer in layer_buffers(layer, shape, cache)]


def layer_buffers(layer: int, shape: LayerShape, cache: str) -> list[Buffer]:
    """A layer's keys, with their scales if there are any; then values likewise."""
    buffers, heads = [], shape.kv_heads
    for past, present in zip(past_names(layer), present_names(layer), strict=True):
        buffers.append(Buffer(past, present, CACHE_FORMATS[cache], heads, shape.head_size))
        if cache == "int8":
            buffers.append(Buffer(scale_name(past), scale_name(present), "float32", heads, 1))
    return buffers
