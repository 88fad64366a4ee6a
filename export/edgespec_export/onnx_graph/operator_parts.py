"""The parts that operators are made of, each with its tensors and attributes.

The symbols in shapes:

    m: rows of a call (positions); described: how many of the last rows say themselves where they
    stand; layout: 3, a row's start, position and index; part: 2, its start and count
    k, n: columns before and after a matrix product; inner: columns between the two of a fused
    block, and of a convolution; taps: positions that a convolution reads, its own included
    groups: inputs of an int4, int4-int8 or int8-groups product are in groups of 32, each with its
    scale or step: k = 32 · groups; closing_groups: inner = 32 · closing_groups
    group: 32; group_bytes: 16, as a byte holds two weights of 4 bits
    block, closing_block: rows of a Hadamard matrix; vocabulary: token ids
    heads, kv_heads: query heads, key/value heads; size: numbers of a head; half_size: size / 2
    q_width, kv_width: heads · size, kv_heads · size
    capacity: positions that the cache holds; keys: positions up to this call's last one
    source: positions of the encoder
    channels, taps: of a convolution over positions; v_heads, v_width: value heads, their numbers
    slots, sequences: states and sequences that a recurrent layer keeps; state, recent, row: numbers
    of a state; positions whose inputs it keeps; their numbers; stepped: sequences of a call;
    step: 6, what a call does with the states of one (`graph_io.STATE_STEPS`)
    logit_rows, token_rows, probability_rows: m or 0; top: tokens returned for each row
"""

from __future__ import annotations

from dataclasses import replace

import onnx_ir as ir

from edgespec_export.onnx_graph.operator_spec import Attribute, Part, Tensor

__all__ = [
    "BFLOAT16_WEIGHTS",
    "CACHES",
    "CALL",
    "CHOICE",
    "CLOSING",
    "CONVOLUTION_CACHES",
    "CONVOLUTION_ROWS",
    "DELTA_ROWS",
    "DELTA_STATE",
    "ENCODER_BIAS",
    "ENCODINGS",
    "FLOAT16_WEIGHTS",
    "GATE_ROWS",
    "HADAMARD",
    "HEADS",
    "HEAD_ROWS",
    "INT4_INT8_WEIGHTS",
    "INT4_WEIGHTS",
    "INT8_GROUP_TABLE",
    "INT8_GROUP_WEIGHTS",
    "INT8_TABLE",
    "INT8_WEIGHTS",
    "KEPT_CACHES",
    "KEPT_WINDOW",
    "NORM",
    "POST_NORM",
    "POST_NORM_NAMES",
    "PRODUCT_ROWS",
    "PROJECTION_BIAS",
    "QKV_ROWS",
    "QUERY_ROWS",
    "SOURCE",
    "STATIC_NORM",
    "STREAM_ROWS",
    "TAPS",
    "TOKEN_ROWS",
    "WIDTHS",
    "closing",
]

FLOAT, FLOAT16, BFLOAT16 = ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16
INT8, UINT8, INT32 = ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT32


def _floats(name: str, *shape: int | str) -> Tensor:
    return Tensor(name, FLOAT, shape)


def _integers(name: str, *shape: int | str) -> Tensor:
    return Tensor(name, ir.DataType.INT64, shape)


def _constant(name: str, dtype: ir.DataType, *shape: int | str) -> Tensor:
    return Tensor(name, dtype, shape, constant=True)


def _number(name: str) -> Attribute:
    return Attribute(name, ir.AttributeType.FLOAT)


def _count(name: str, *, body_only: bool = False) -> Attribute:
    return Attribute(name, ir.AttributeType.INT, body_only)


def _sizes(*names: str) -> tuple[Attribute, ...]:
    """Lists of sizes that only bodies read."""
    return tuple(Attribute(name, ir.AttributeType.INTS, body_only=True) for name in names)


# --- Rows: what an operator reads first, and what it makes --------------------------------------

X = _floats("x", "m", "k")
IN_STREAM = _floats("y", "m", "k")
Q, K, V = _floats("q", "m", "q_width"), _floats("k", "m", "kv_width"), _floats("v", "m", "kv_width")
ATTENDED = _floats("y", "m", "q_width")

PRODUCT_ROWS = Part("ProductRows", (X,), (_floats("y", "m", "n"),))
STREAM_ROWS = Part("StreamRows", (X,), (IN_STREAM,))
TOKEN_ROWS = Part("TokenRows", (_integers("tokens", "m"),), (IN_STREAM,))
GATE_ROWS = Part("GateRows", (_floats("gate", "m", "k"), _floats("up", "m", "k")), (IN_STREAM,))
QKV_ROWS = Part("QkvRows", (Q, K, V), (ATTENDED,))
QUERY_ROWS = Part("QueryRows", (Q,), (ATTENDED,))
CONVOLUTION_ROWS = Part(
    "ConvolutionRows",
    tuple(_floats(name, "m", "inner") for name in ("before", "after", "x")),
    (_floats("y", "m", "inner"),),
)
HEAD_ROWS = Part(
    "HeadRows",
    (X,),
    (
        _floats("logits", "logit_rows", "vocabulary"),
        _integers("tokens", "token_rows", "top"),
        _floats("token_logits", "token_rows", "top"),
        _floats("probabilities", "probability_rows", "top"),
    ),
)
CHOICE = Part("Choice", (_integers("choose", 1),))  # which of the head's outputs have rows

# --- Norms and rotations -------------------------------------------------------------------------

EPSILON = _number("epsilon")
NORM = Part("Norm", (_floats("norm", "k"),), attributes=(EPSILON,))
# With one scale, `step`, for all numbers of the normed rows.
STATIC_NORM = Part("StaticNorm", NORM.inputs, attributes=(EPSILON, _number("step")))
HADAMARD = Part(
    "Hadamard",
    (_constant("hadamard", FLOAT, "block", "block"),),
    attributes=_sizes("blocks", "rows"),
)
# The norm of what a fused block adds to the residual stream.
POST_NORM_NAMES = {"norm": "post_norm", "epsilon": "post_epsilon"}
POST_NORM = Part("PostNorm", (_floats("post_norm", "k"),), attributes=(_number("post_epsilon"),))

# --- Weights -------------------------------------------------------------------------------------

FLOAT16_WEIGHTS = Part("Float16Weights", (_constant("weights", FLOAT16, "n", "k"),))
BFLOAT16_WEIGHTS = Part("BFloat16Weights", (_constant("weights", BFLOAT16, "n", "k"),))
INT8_WEIGHTS = Part(
    "Int8Weights", (_constant("weights", INT8, "k", "n"), _constant("scale", FLOAT, "n"))
)
GROUP_SIZES = tuple(_count(name, body_only=True) for name in ("k", "n"))
# Two codes in a byte, the first in its low half; a weight is code · scale + minimum.
INT4_WEIGHTS = Part(
    "Int4Weights",
    (
        _constant("weights", UINT8, "n", "groups", "group_bytes"),
        _constant("scale", FLOAT16, "n", "groups"),
        _constant("minimum", FLOAT16, "n", "groups"),
    ),
    attributes=GROUP_SIZES,
)
# A weight is (code · step + offset) · scale, with whole numbers of 8 bits between the parentheses.
INT4_INT8_WEIGHTS = Part(
    "Int4Int8Weights",
    (
        _constant("weights", UINT8, "n", "groups", "group_bytes"),
        _constant("steps", UINT8, "n", "groups"),
        _constant("offsets", INT8, "n", "groups"),
        _constant("scale", FLOAT, "n"),
    ),
)
# A weight is (code - 128) · scale.
INT8_GROUP_WEIGHTS = Part(
    "Int8GroupWeights",
    (
        _constant("weights", UINT8, "n", "groups", "group"),
        _constant("scale", FLOAT16, "n", "groups"),
    ),
    attributes=GROUP_SIZES,
)
INT8_TABLE = Part(
    "Int8Table",
    (_constant("table", INT8, "vocabulary", "k"), _constant("scale", FLOAT, "vocabulary")),
)
INT8_GROUP_TABLE = Part(
    "Int8GroupTable",
    (
        _constant("table", UINT8, "vocabulary", "groups", "group"),
        _constant("scale", FLOAT16, "vocabulary", "groups"),
    ),
)
PROJECTION_BIAS = Part("ProjectionBias", (_floats("projection_bias", "n"),))  # of q, k and v
WIDTHS = Part("Widths", attributes=_sizes("widths"))  # of the columns of an opening product

# Sizes and attributes of a fused block's second product, which is [inner, k] instead of [k, n].
CLOSING = {
    "k": "inner",
    "n": "k",
    "groups": "closing_groups",
    "block": "closing_block",
    "blocks": "closing_blocks",
    "rows": "closing_rows",
}


def closing(part: Part) -> Part:
    """A part of a product as one of a fused block's second product."""
    inputs = tuple(
        replace(
            tensor,
            name=f"closing_{tensor.name}",
            shape=tuple(CLOSING.get(str(size), size) for size in tensor.shape),
        )
        for tensor in part.inputs
    )
    attributes = (replace(each, name=CLOSING[each.name]) for each in part.attributes)
    own = tuple(each for each in attributes if each.name != "k")  # the first product has it
    return Part(f"Closing{part.name}", inputs, attributes=own)


# --- Attention -----------------------------------------------------------------------------------

HEADS = Part("Heads", attributes=(_count("num_heads"), _count("kv_num_heads"), _number("scale")))
CALL = Part(
    "CallPositions",
    (
        Tensor("last", INT32, (1,)),
        Tensor("total", INT32, ()),  # last + 1, which only the body reads
        _integers("layouts", "described", "layout"),
    ),
)
ANGLES = (_floats("cos", 1, "m", "half_size"), _floats("sin", 1, "m", "half_size"))
HEAD_NORMS = (_floats("q_norm", "size"), _floats("k_norm", "size"))
HEAD_EPSILON = _number("head_epsilon")
WINDOW = _count("window")  # positions that a query sees, its own too
# Whether products of queries and keys, and of weights and values, are of bfloat16 numbers.
IN_BFLOAT16 = Attribute("bfloat16", ir.AttributeType.INT, kernel_only=True)

# What queries and keys go through before they meet, and which keys a query sees, by the start of
# an operator's name. "Normed": each head of queries and keys, before its rotation.
ENCODINGS = {
    part.name: part
    for part in (
        Part("Rotary", ANGLES, attributes=(IN_BFLOAT16,)),
        Part(
            "Biased",
            (_floats("bias", 1, "heads", "m", "keys"),),
            attributes=(IN_BFLOAT16,),
        ),
        Part("Windowed", ANGLES, attributes=(WINDOW, IN_BFLOAT16)),
        Part("NormedRotary", (*ANGLES, *HEAD_NORMS), attributes=(HEAD_EPSILON, IN_BFLOAT16)),
        Part(
            "NormedWindowed",
            (*ANGLES, *HEAD_NORMS),
            attributes=(HEAD_EPSILON, WINDOW, IN_BFLOAT16),
        ),
    )
}
ENCODER_BIAS = Part("EncoderBias", (_floats("bias", 1, "heads", "m", "m"),))
SOURCE = Part(
    "Source",
    (
        *(_floats(name, 1, "kv_heads", "source", "size") for name in ("key", "value")),
        _integers("sources", "described", "part"),
    ),
)


def _cache(
    name: str,
    dtype: ir.DataType,
    *,
    is_scaled: bool = False,
    kinds: tuple[str, ...] = ("key", "value"),
) -> Part:
    """A cache of self-attention; `is_scaled` with a scale for each position of each head."""
    rows = (1, "kv_heads", "capacity")

    def buffers(prefix: str) -> tuple[Tensor, ...]:
        named = [f"{prefix}_{kind}" for kind in kinds]
        stored = tuple(Tensor(kind, dtype, (*rows, "size")) for kind in named)
        scales = tuple(_floats(f"{kind}_scale", *rows, 1) for kind in named)
        return (*stored, *scales) if is_scaled else stored

    return Part(name, buffers("past"), buffers("present"))


# By what operators' names say of the cache: nothing of one in float32.
CACHES = {
    "": _cache("Float32Cache", FLOAT),
    "Float16Cache": _cache("Float16Cache", FLOAT16),
    "Int8Cache": _cache("Int8Cache", INT8, is_scaled=True),
}
# The same, only read: another layer has written this call's positions too.
KEPT_CACHES = {name: Part(f"Kept{cache.name}", cache.inputs) for name, cache in CACHES.items()}
KEPT_WINDOW = Part("KeptWindow", attributes=(WINDOW, IN_BFLOAT16))

# --- Recurrent layers -----------------------------------------------------------------------------

DELTA_ROWS = Part(
    "DeltaRows",
    (
        _floats("qkv", "m", "channels"),
        _floats("write", "m", "v_heads"),
        _floats("forget", "m", "v_heads"),
        _floats("convolution", "taps", "channels"),
        _floats("decay", "v_heads"),
        _floats("forget_bias", "v_heads"),
    ),
    (_floats("y", "m", "v_width"),),
    tuple(map(_count, ("k_heads", "v_heads", "key_size", "value_size"))),
)
DELTA_STATE = Part(
    "DeltaState",
    (
        _floats("past_state", "slots", "state"),
        _floats("past_rows", "sequences", "recent", "row"),
        _integers("steps", "stepped", "step"),
        _integers("past_length", 1),
        _integers("layouts", "described", "layout"),
    ),
    (
        _floats("present_state", "slots", "state"),
        _floats("present_rows", "sequences", "recent", "row"),
    ),
)

# --- Convolutions --------------------------------------------------------------------------------

# The factors of the position itself, of the one before it, ….
TAPS = Part(
    "Taps", (_floats("factors", "taps", "inner"),), attributes=(_count("taps", body_only=True),)
)
TWO_LAYERS = ("key", "value", "next_key", "next_value")
# What a convolution keeps of a position fills the keys and values of one layer of the cache or of
# two: by what operators' names say of it.
CONVOLUTION_CACHES = {
    **CACHES,
    "TwoLayer": _cache("Float32Layers", FLOAT, kinds=TWO_LAYERS),
    "TwoLayerFloat16Cache": _cache("Float16Layers", FLOAT16, kinds=TWO_LAYERS),
    "TwoLayerInt8Cache": _cache("Int8Layers", INT8, is_scaled=True, kinds=TWO_LAYERS),
}
