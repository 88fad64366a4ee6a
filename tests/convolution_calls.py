"""Calls of convolution operators: their inputs, by layers of the cache and its format."""

from __future__ import annotations

import numpy as np

from attention_calls import NO_LAYOUTS
from edgespec_export.operators.convolution_ops import SHORT_CONVOLUTION

TAPS = 4
SIZE, PAST, ROOM = 16, 70, 3
# Each fills its layers of the cache except for a part of the last buffer.
WIDTHS = {1: 56, 2: 120}


def kind_of(function):
    """Layers of the cache and its format, of a convolution."""
    return next(kind for kind, known in SHORT_CONVOLUTION.items() if known is function)


def stored(rng, layers, cache, width, capacity, past):
    """Buffers of a cache; forgotten positions hold numbers that would be seen."""
    names = ["past_key", "past_value", "past_next_key", "past_next_value"][: 2 * layers]
    heads = -(-width // (len(names) * SIZE))
    buffers = {}
    for name in names:
        rows = rng.normal(size=(1, heads, capacity, SIZE)).astype(np.float32)
        rows[:, :, past:] = np.nan
        if cache == "int8":
            scales = np.abs(rows).max(-1, keepdims=True) / np.float32(127)
            buffers[f"{name}_scale"] = scales
            rows = np.nan_to_num(np.rint(rows / scales)).astype(np.int8)
        buffers[name] = rows.astype(np.float16) if cache == "fp16" else rows
    return buffers


def cached_convolution(rng, function, count, width, past=PAST):
    """The inputs that follow before, after and x."""
    layers, cache = kind_of(function)
    total = past + count
    inputs = stored(rng, layers, cache, width, total + ROOM, past)
    inputs |= {"last": np.array([total - 1], np.int32), "total": np.array(total, np.int32)}
    factors = rng.normal(size=(TAPS, width)).astype(np.float32)
    return inputs | {"layouts": NO_LAYOUTS, "factors": factors}


def convolution_inputs(rng, function, count, past=PAST):
    width = WIDTHS[kind_of(function)[0]]
    rows = {n: rng.normal(size=(count, width)).astype(np.float32) for n in ("before", "after", "x")}
    return rows | cached_convolution(rng, function, count, width, past)
