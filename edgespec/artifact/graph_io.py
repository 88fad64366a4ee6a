"""Names, types and shapes of the exported graphs' inputs and outputs.

The exporter writes them, runtimes read them. docs/reference/folder-format.md says the same for
readers in other languages.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "CACHE_FORMATS",
    "CHOICES",
    "CHOOSE",
    "CHOSEN",
    "CHOSEN_CHANCES",
    "CHOSEN_LOGITS",
    "DECODER",
    "ENCODER",
    "FEATURES",
    "HIDDEN",
    "LOGITS",
    "MAX_ROWS",
    "PARENTS",
    "PAST_LENGTH",
    "READER",
    "SKIP",
    "STATES",
    "TOKENS",
    "Buffer",
    "cache_buffers",
    "cross_names",
    "past_names",
    "present_names",
    "scale_name",
]

# Graphs of a variant. A decoder-only model has no encoder; a reader has only a draft that reads its
# target's hidden states.
ENCODER = "encoder"
READER = "reader"
DECODER = "decoder"

# Inputs and outputs. m: positions in a call; V: rows' width.
TOKENS = "tokens"  # int64 [m]: the tokens of these positions (encoder: of the whole source)
PAST_LENGTH = "past_length"  # int64 [1]: valid positions in the cache before this call
# int64 [siblings]: so many positions at the end of a call are siblings: each stands behind the one
# of the call that is named here, in place of the next. None is the default, more is for kernels.
PARENTS = "parents"
SKIP = "skip"  # int64 [1]: leading positions without logits (m - 1 at most, for a prefill)
LOGITS = "logits"  # float32 [m - skip, V]
# Of a graph that can leave the logits out where only their arg-max is asked for.
# int64 [1]: 1 asks for it, 2 for the CHOICES best tokens and their probabilities; 0, the default,
# for logits.
CHOOSE = "choose"
CHOSEN = "chosen"  # int64 [m - skip, best]: the largest logits' tokens; no rows if not asked for
CHOSEN_LOGITS = "chosen_logits"  # float32 [m - skip, best]: of these tokens
CHOSEN_CHANCES = "chosen_chances"  # float32 [m - skip, best]: their softmax
CHOICES = 3
# Of a target that shows hidden states and of the draft that reads them.
FEATURES = "features"  # float32 [m, F]: the target's decoder shows them, the draft's reader reads
STATES = "states"  # float32 [m, width]: of the draft's reader; its decoder's input
HIDDEN = "hidden"  # float32 [m, width]: the draft's own guess at the next position's states


# Positions of a call that row-invariance is measured for: γ = 16 and the bonus token.
MAX_ROWS = 17

# Formats of a cache, and the numpy type that its keys and values are kept in.
CACHE_FORMATS = {"fp32": "float32", "fp16": "float16", "int8": "int8"}


def past_names(layer: int) -> tuple[str, str]:
    """Self-attention keys and values: [1, kv_heads, capacity, head_size], inputs.

    The same buffers are bound to `present_names`: a call writes positions
    past_length … past_length + m - 1 and touches no other.
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


@dataclass(frozen=True)
class Buffer:
    """A part of the cache: [1, kv_heads, capacity, width], input and output in the same memory.

    Attributes:
        past, present: its names as input and as output.
        dtype: numpy's name of its type.
    """

    past: str
    present: str
    dtype: str
    width: int


def cache_buffers(layers: int, head_size: int, cache: str) -> list[Buffer]:
    """All cache buffers of a decoder with this many layers; `cache` is one of `CACHE_FORMATS`."""
    buffers = []
    for layer in range(layers):
        for past, present in zip(past_names(layer), present_names(layer), strict=True):
            buffers.append(Buffer(past, present, CACHE_FORMATS[cache], head_size))
            if cache == "int8":
                buffers.append(Buffer(scale_name(past), scale_name(present), "float32", 1))
    return buffers
