"""Calls of attention operators: their inputs, with each encoding and format of the cache."""

from __future__ import annotations

import numpy as np

from edgespec_export.operators.attention.attention_ops import SOURCE_ATTENTION
from edgespec_export.operators.attention.self_attention_ops import SELF_ATTENTION

HEADS = {
    "SmolLM2": (9, 3, 64),
    "T5": (6, 6, 64),
    "one key head": (4, 1, 16),
    "odd head": (2, 2, 24),
    "large heads": (4, 2, 128),
}


WINDOW = 37  # positions; it begins and ends inside tiles
NO_LAYOUTS = np.zeros((0, 3), np.int64)
NO_SOURCES = np.zeros((0, 2), np.int64)


def cached_inputs(rng, shape, count, past, capacity):
    """Of a causal call; forgotten positions hold numbers that would be seen."""
    heads, kv_heads, size = shape
    new = [rng.normal(size=(count, n * size)) for n in (heads, kv_heads, kv_heads)]
    old = [rng.normal(size=(1, kv_heads, capacity, size)) for _ in range(2)]
    for buffer in old:
        buffer[:, :, past:] = np.nan
    names = ("q", "k", "v", "past_key", "past_value")
    inputs = {n: v.astype(np.float32) for n, v in zip(names, new + old, strict=True)}
    total = past + count
    inputs |= {"last": np.array([total - 1], np.int32), "total": np.array(total, np.int32)}
    return inputs | {"layouts": NO_LAYOUTS}


def attributes_of(shape, function=SOURCE_ATTENTION):
    heads, kv_heads, size = shape
    attributes = {"num_heads": heads, "kv_num_heads": kv_heads, "scale": size**-0.5}
    attributes |= {"head_epsilon": 1e-5, "window": WINDOW}
    return {name: attributes[name] for name in function.attributes if name in attributes}


def with_angles(rng, inputs, shape):
    angles = rng.uniform(-9, 9, (1, len(inputs["q"]), shape[2] // 2)).astype(np.float32)
    return inputs | {"cos": np.cos(angles), "sin": np.sin(angles)}


def with_head_norms(rng, inputs, shape):
    norms = {f"{part}_norm": rng.uniform(0.5, 2, shape[2]) for part in "qk"}
    inputs = with_angles(rng, inputs, shape)
    return inputs | {name: weights.astype(np.float32) for name, weights in norms.items()}


def head_norms_of(inputs):
    return {name: inputs[name] for name in ("q_norm", "k_norm") if name in inputs}


def with_bias(rng, inputs, shape):
    size = (1, shape[0], len(inputs["q"]), int(inputs["total"]))
    return inputs | {"bias": rng.normal(size=size).astype(np.float32)}


def in_fp32(inputs):
    return inputs


def in_fp16(inputs):
    return inputs | {name: inputs[name].astype(np.float16) for name in PAST}


def in_int8(inputs):
    scales = {f"{name}_scale": np.abs(inputs[name]).max(-1, keepdims=True) / 127 for name in PAST}
    codes = {name: np.rint(inputs[name] / scales[f"{name}_scale"]) for name in PAST}
    codes = {name: np.nan_to_num(rows).astype(np.int8) for name, rows in codes.items()}
    return inputs | codes | {n: scale.astype(np.float32) for n, scale in scales.items()}


PAST = ("past_key", "past_value")
NARROW = {"fp16": in_fp16, "int8": in_int8}
FUNCTIONS = {
    (encoding, cache): function
    for encoding, by_cache in SELF_ATTENTION.items()
    for cache, function in by_cache.items()
}


ENCODED = {
    "Rotary": with_angles,
    "Biased": with_bias,
    "Windowed": with_angles,
    "NormedRotary": with_head_norms,
    "NormedWindowed": with_head_norms,
}


CACHE_FORMATS = {"fp32": in_fp32, **NARROW}


def complete_for(encoding, cache):
    """Adds positions to the inputs of a call, and stores its past in this format."""

    def complete(rng, inputs, shape):
        return CACHE_FORMATS[cache](ENCODED[encoding](rng, inputs, shape))

    return complete


KINDS = {
    f"{encoding} {cache}": (function, complete_for(encoding, cache))
    for (encoding, cache), function in FUNCTIONS.items()
}


def buffers_of(inputs):
    """The buffers of the cache, in the order of the outputs."""
    return {name: value for name, value in inputs.items() if name.startswith("past_")}


def joined(rng, complete, shape, texts):
    """Calls of several texts, each with a cache of its own, and the same rows as one call.

    Texts lie in the cache one after the other, the first one last; rows come in random order.
    """
    alone = [
        complete(rng, cached_inputs(rng, shape, n, past, past + n), shape) for past, n in texts
    ]
    alone = [inputs | head_norms_of(alone[0]) for inputs in alone]
    starts = np.cumsum([0, *(past + n for past, n in reversed(texts))])[-2::-1]
    rows = [(t, r) for t, (_, n) in enumerate(texts) for r in range(n)]
    rows = [rows[i] for i in rng.permutation(len(rows))]
    call = {name: np.stack([alone[t][name][r] for t, r in rows]) for name in "qkv"}
    call |= head_norms_of(alone[0])
    for name in buffers_of(alone[0]):
        call[name] = np.concatenate([part[name] for part in reversed(alone)], axis=2)
    positions = [texts[t][0] + r for t, r in rows]
    total = max(len(rows), max(positions) + 1)
    call |= {"last": np.array([total - 1], np.int32), "total": np.array(total, np.int32)}
    call["layouts"] = np.array(
        [(starts[t], p, starts[t] + p) for (t, _), p in zip(rows, positions, strict=True)], np.int64
    )
    if "cos" in alone[0]:
        for name in ("cos", "sin"):
            call[name] = np.stack([alone[t][name][0, r] for t, r in rows])[None]
    else:
        call["bias"] = np.full((1, shape[0], len(rows), total), np.nan, np.float32)
        for row, (t, r) in enumerate(rows):
            seen = texts[t][0] + r + 1
            call["bias"][0, :, row, :seen] = alone[t]["bias"][0, :, r, :seen]
    return alone, call, rows, starts
