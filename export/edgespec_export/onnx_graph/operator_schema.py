"""The operators of the ONNX domain "edgespec": inputs, outputs, types, shapes and attributes.

This table is the only place that lists them; three places read it:

    operator_schema ─┬─ functions.py: signatures of the ONNX functions, which hold the bodies
                     ├─ check_call: refuses a call with wrong inputs during the export
                     └─ scripts/generate_operator_header.py: the table as C++ for the kernels
                        (runtimes/kernels/src/schema/operators.h)

For example, one entry is:

    Int8MatMul: x float32 [m, k], weights int8 [k, n], scale float32 [n] → y float32 [m, n]

A shape is a tuple of sizes: 1, or a symbol. Tensors of one call that share a symbol have the same
size there. The symbols:

    m: rows of a call (positions); described: how many of the last rows say themselves where they
    stand; layout: 3, a row's start, position and index; part: 2, its start and count
    k, n: columns before and after a matrix product; inner: columns between the two of a fused block
    groups: inputs of an int4 or int8-groups product are in groups of 32, k = 32 · groups, each with
    its scale; closing_groups: inner = 32 · closing_groups
    group: 32; group_bytes: 16, as a byte holds two weights of 4 bits
    block, closing_block: rows of a Hadamard matrix; vocabulary: token ids
    heads, kv_heads: query heads, key/value heads; size: numbers of a head; half_size: size / 2
    q_width, kv_width: heads · size, kv_heads · size
    capacity: positions that the cache holds; keys: positions up to this call's last one
    source: positions of the encoder
    logit_rows, token_rows, probability_rows: m or 0; top: tokens returned for each row
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import onnx_ir as ir

__all__ = [
    "CLOSING",
    "DOMAIN",
    "OPERATORS",
    "POST_NORM",
    "PROJECTION_BIAS",
    "WITH_POST_NORM",
    "WITH_PROJECTION_BIAS",
    "Attribute",
    "Operator",
    "Tensor",
    "check_call",
]

DOMAIN = "edgespec"


@dataclass(frozen=True)
class Tensor:
    """An input or an output; `constant` if a kernel reads it once, when the graph is loaded."""

    name: str
    dtype: ir.DataType
    shape: tuple[int | str, ...]
    constant: bool = False


@dataclass(frozen=True)
class Attribute:
    """An attribute of an operator; every call has to give it.

    It is `body_only` if kernels read the same from shapes.
    """

    name: str
    type: ir.AttributeType
    body_only: bool = False


@dataclass(frozen=True)
class Operator:
    """One operator; `has_kernel` is False if it has only a body of standard operators."""

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    attributes: tuple[Attribute, ...] = ()
    has_kernel: bool = True


def _floats(name: str, *shape: int | str) -> Tensor:
    return Tensor(name, ir.DataType.FLOAT, shape)


def _integers(name: str, *shape: int | str) -> Tensor:
    return Tensor(name, ir.DataType.INT64, shape)


def _constant(name: str, dtype: ir.DataType, *shape: int | str) -> Tensor:
    return Tensor(name, dtype, shape, constant=True)


# Sizes and attributes of a fused block's second product, which is [inner, k] instead of [k, n].
CLOSING = {
    "k": "inner",
    "n": "k",
    "groups": "closing_groups",
    "block": "closing_block",
    "blocks": "closing_blocks",
    "rows": "closing_rows",
}
# The input and the attribute of the norm of what a fused block adds to the residual stream.
POST_NORM = {"norm": "post_norm", "epsilon": "post_epsilon"}


def _closing(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """These inputs for a fused block's second product."""
    return tuple(
        replace(
            tensor,
            name=f"closing_{tensor.name}",
            shape=tuple(CLOSING.get(str(size), size) for size in tensor.shape),
        )
        for tensor in tensors
    )


FLOAT, FLOAT16 = ir.DataType.FLOAT, ir.DataType.FLOAT16
INT8, UINT8 = ir.DataType.INT8, ir.DataType.UINT8

X = _floats("x", "m", "k")
Y = _floats("y", "m", "n")
NORM = _floats("norm", "k")
HADAMARD = _constant("hadamard", FLOAT, "block", "block")
TABLE = (_constant("table", INT8, "vocabulary", "k"), _constant("scale", FLOAT, "vocabulary"))
GROUP_TABLE = (
    _constant("table", UINT8, "vocabulary", "groups", "group"),
    _constant("scale", FLOAT16, "vocabulary", "groups"),
)

QKV = (_floats("q", "m", "q_width"), _floats("k", "m", "kv_width"), _floats("v", "m", "kv_width"))
CALL = (
    Tensor("last", ir.DataType.INT32, (1,)),
    Tensor("total", ir.DataType.INT32, ()),  # last + 1, which only the body reads
    _integers("layouts", "described", "layout"),
)
ANGLES = (_floats("cos", 1, "m", "half_size"), _floats("sin", 1, "m", "half_size"))
BIAS = (_floats("bias", 1, "heads", "m", "keys"),)
ENCODER_BIAS = (_floats("bias", 1, "heads", "m", "m"),)
SOURCE = (
    *(_floats(name, 1, "kv_heads", "source", "size") for name in ("key", "value")),
    _integers("sources", "described", "part"),
)
HEAD_NORMS = (_floats("q_norm", "size"), _floats("k_norm", "size"))
ATTENDED = _floats("y", "m", "q_width")

KINDS = ("key", "value")  # what a cache holds


@dataclass(frozen=True)
class Encoding:
    """What queries and keys go through before they meet, and which keys a query sees.

    Attributes:
        tensors: inputs of self-attention that it needs.
        attributes: likewise.
    """

    tensors: tuple[Tensor, ...]
    attributes: tuple[Attribute, ...] = ()


WINDOW = (Attribute("window", ir.AttributeType.INT),)  # positions that a query sees, its own too
HEAD_EPSILON = (Attribute("head_epsilon", ir.AttributeType.FLOAT),)

# By the start of an operator's name. "Normed": each head of queries and keys, before its rotation.
ENCODINGS = {
    "Rotary": Encoding(ANGLES),
    "Biased": Encoding(BIAS),
    "Windowed": Encoding(ANGLES, WINDOW),
    "NormedRotary": Encoding((*ANGLES, *HEAD_NORMS), HEAD_EPSILON),
    "NormedWindowed": Encoding((*ANGLES, *HEAD_NORMS), (*HEAD_EPSILON, *WINDOW)),
}
# Those of models with a norm after each block, which are Gemma's.
WITH_POST_NORM = ("NormedRotary", "NormedWindowed")
# Those of models whose queries, keys and values have biases: Qwen2.5's, and some of Llama's.
WITH_PROJECTION_BIAS = ("Rotary",)
PROJECTION_BIAS = _floats("projection_bias", "n")  # added to what the opening product makes


@dataclass(frozen=True)
class CacheFormat:
    """What the cache of self-attention stores.

    Attributes:
        name: in the operators' names.
        dtype: of keys and values.
        scaled: with a scale for each position of each head.
    """

    name: str
    dtype: ir.DataType
    scaled: bool = False

    def buffers(self, prefix: str) -> tuple[Tensor, ...]:
        """The inputs of an operator, "past", or its outputs, "present"."""
        rows = (1, "kv_heads", "capacity")
        stored = [Tensor(f"{prefix}_{name}", self.dtype, (*rows, "size")) for name in KINDS]
        scales = [Tensor(f"{prefix}_{name}_scale", FLOAT, (*rows, 1)) for name in KINDS]
        return (*stored, *scales) if self.scaled else tuple(stored)


CACHE_FORMATS = (
    CacheFormat("", FLOAT),
    CacheFormat("Float16Cache", ir.DataType.FLOAT16),
    CacheFormat("Int8Cache", INT8, scaled=True),
)

RMS_NORM = (Attribute("epsilon", ir.AttributeType.FLOAT),)
STATIC_SCALE = (*RMS_NORM, Attribute("step", ir.AttributeType.FLOAT))
ROTATION = tuple(
    Attribute(name, ir.AttributeType.INTS, body_only=True) for name in ("blocks", "rows")
)
HEADS = (
    Attribute("num_heads", ir.AttributeType.INT),
    Attribute("kv_num_heads", ir.AttributeType.INT),
    Attribute("scale", ir.AttributeType.FLOAT),
)
WIDTHS = (Attribute("widths", ir.AttributeType.INTS, body_only=True),)

BLOCK_OUTPUT = _floats("y", "m", "k")


@dataclass(frozen=True)
class Weights:
    """A format of weights that has products and fused blocks.

    Attributes:
        name: in the products' names.
        blocks: the start of the fused blocks' names.
        tensors: the weights of a product and their scales.
        norm: attributes of a product of normed rows.
        rotation: the Hadamard matrix of a feed-forward's activations, if they are rotated; also of
            the normed rows, where a norm after each block keeps the residual stream unrotated.
        sizes: of the symbols k and n, which the products' bodies need as attributes.
    """

    name: str
    blocks: str
    tensors: tuple[Tensor, ...]
    norm: tuple[Attribute, ...]
    rotation: tuple[Tensor, ...] = ()
    sizes: tuple[Attribute, ...] = ()


INT8_WEIGHTS = Weights(
    name="Int8",
    blocks="",
    tensors=(_constant("weights", INT8, "k", "n"), _constant("scale", FLOAT, "n")),
    norm=STATIC_SCALE,
    rotation=(HADAMARD,),
)
# Two codes in a byte, the first in its low half; a weight is code · scale + minimum.
INT4_WEIGHTS = Weights(
    name="Int4",
    blocks="Int4",
    tensors=(
        _constant("weights", UINT8, "n", "groups", "group_bytes"),
        _constant("scale", FLOAT16, "n", "groups"),
        _constant("minimum", FLOAT16, "n", "groups"),
    ),
    norm=RMS_NORM,
    sizes=tuple(Attribute(name, ir.AttributeType.INT, body_only=True) for name in ("k", "n")),
)
# A weight is (code - 128) · scale.
INT8_GROUP_WEIGHTS = Weights(
    name="Int8Group",
    blocks="Int8Group",
    tensors=(
        _constant("weights", UINT8, "n", "groups", "group"),
        _constant("scale", FLOAT16, "n", "groups"),
    ),
    norm=RMS_NORM,
    sizes=INT4_WEIGHTS.sizes,
)


def _float_matmul(name: str, dtype: ir.DataType) -> Operator:
    return Operator(name, (X, _constant("weights", dtype, "n", "k")), (Y,))


def _gate(name: str) -> Operator:
    return Operator(name, (_floats("gate", "m", "k"), _floats("up", "m", "k")), (BLOCK_OUTPUT,))


def _self_attention(cache: CacheFormat) -> Iterator[Operator]:
    for start, encoding in ENCODINGS.items():
        inputs = (*QKV, *cache.buffers("past"), *CALL, *encoding.tensors)
        outputs = (ATTENDED, *cache.buffers("present"))
        attributes = (*HEADS, *encoding.attributes)
        yield Operator(f"{start}{cache.name}RowAttention", inputs, outputs, attributes)


def _products(weights: Weights) -> Iterator[Operator]:
    """Products of rows rounded to 8 bits."""
    name, sizes = weights.name, weights.sizes
    yield Operator(f"{name}MatMul", (X, *weights.tensors), (Y,), sizes)
    yield Operator(f"RMSNorm{name}MatMul", *_opening(weights, is_rotated=False))
    if weights.rotation:
        yield Operator(f"RMSNormHadamard{name}MatMul", *_opening(weights, is_rotated=True))


def _opening(
    weights: Weights, *, is_rotated: bool
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...], tuple[Attribute, ...]]:
    """Inputs, output and attributes of a product of normed rows, which may be rotated before it."""
    if is_rotated:
        inputs = (X, NORM, *weights.rotation, *weights.tensors)
        return inputs, (Y,), (*RMS_NORM, *ROTATION, *weights.sizes)
    return (X, NORM, *weights.tensors), (Y,), (*weights.norm, *weights.sizes)


def _fused_blocks(weights: Weights, *, post_norm: bool) -> Iterator[Operator]:
    """Whole blocks of a layer: an opening product of the norm, and a closing one.

    Args:
        post_norm: a norm follows the closing product.
    """
    opening, _, shared = _opening(weights, is_rotated=post_norm and bool(weights.rotation))
    shared += tuple(replace(size, name="inner") for size in weights.sizes[:1])
    after = (_floats(POST_NORM["norm"], "k"),) if post_norm else ()
    if post_norm:
        shared += tuple(replace(a, name=POST_NORM[a.name]) for a in RMS_NORM)
    rotation = tuple(replace(a, name=CLOSING[a.name]) for a in ROTATION) if weights.rotation else ()

    def block(
        name: str,
        middle: tuple[Tensor, ...],
        closing: tuple[Tensor, ...],
        attributes: tuple[Attribute, ...],
        present: tuple[Tensor, ...] = (),
    ) -> Operator:
        whole = f"{weights.blocks}{name}{'PostNorm' if post_norm else ''}Block"
        inputs = (*opening, *middle, *_closing(closing), *after)
        return Operator(whole, inputs, (BLOCK_OUTPUT, *present), (*shared, *attributes))

    def self_attention(start: str, cache: CacheFormat) -> Operator:
        encoding = ENCODINGS[start]
        middle = (*cache.buffers("past"), *CALL, *encoding.tensors)
        attributes = (*HEADS, *encoding.attributes, *WIDTHS)
        name, present = f"{start}{cache.name}RowAttention", cache.buffers("present")
        return block(name, middle, weights.tensors, attributes, present)

    def with_projection_bias(operator: Operator) -> Operator:
        name = f"{operator.name.removesuffix('Block')}ProjectionBiasBlock"
        first = len(opening)
        inputs = (*operator.inputs[:first], PROJECTION_BIAS, *operator.inputs[first:])
        return replace(operator, name=name, inputs=inputs)

    def feed_forward(name: str, more: tuple[Attribute, ...] = WIDTHS) -> Operator:
        return block(name, (), (*weights.rotation, *weights.tensors), (*rotation, *more))

    for cache in CACHE_FORMATS:
        for start in WITH_POST_NORM if post_norm else ENCODINGS:
            yield self_attention(start, cache)
    yield feed_forward("GeluFeedForward")
    if not post_norm:
        for cache in CACHE_FORMATS:
            for start in WITH_PROJECTION_BIAS:
                yield with_projection_bias(self_attention(start, cache))
        yield block("CrossRowAttention", SOURCE, weights.tensors, HEADS)
        yield feed_forward("SiluFeedForward")
        yield feed_forward("ReluFeedForward", more=())


OPERATORS = {
    operator.name: operator
    for operator in (
        _float_matmul("Float16MatMul", ir.DataType.FLOAT16),
        _float_matmul("BFloat16MatMul", ir.DataType.BFLOAT16),
        Operator("RMSNorm", (X, NORM), (BLOCK_OUTPUT,), RMS_NORM),
        *_products(INT8_WEIGHTS),
        Operator("HadamardInt8MatMul", (X, HADAMARD, *INT8_WEIGHTS.tensors), (Y,), ROTATION),
        Operator("HadamardRotation", (X, HADAMARD), (BLOCK_OUTPUT,), ROTATION),
        Operator("Int8Embedding", (_integers("tokens", "m"), *TABLE), (BLOCK_OUTPUT,)),
        Operator(
            "Int8Head",
            (X, NORM, HADAMARD, *TABLE, _integers("choose", 1)),
            (
                _floats("logits", "logit_rows", "vocabulary"),
                _integers("tokens", "token_rows", "top"),
                _floats("token_logits", "token_rows", "top"),
                _floats("probabilities", "probability_rows", "top"),
            ),
            (*RMS_NORM, *ROTATION),
        ),
        _gate("SiluGate"),
        _gate("GeluGate"),
        Operator("Relu", (X,), (BLOCK_OUTPUT,), has_kernel=False),
        *(operator for cache in CACHE_FORMATS for operator in _self_attention(cache)),
        Operator("SourceRowAttention", (QKV[0], *SOURCE), (ATTENDED,), HEADS),
        Operator("EncoderAttention", (*QKV, *ENCODER_BIAS), (ATTENDED,), HEADS),
        *_fused_blocks(INT8_WEIGHTS, post_norm=False),
        *_fused_blocks(INT8_WEIGHTS, post_norm=True),
        *_products(INT4_WEIGHTS),
        *_fused_blocks(INT4_WEIGHTS, post_norm=False),
        *_fused_blocks(INT4_WEIGHTS, post_norm=True),
        *_products(INT8_GROUP_WEIGHTS),
        *_fused_blocks(INT8_GROUP_WEIGHTS, post_norm=False),
        *_fused_blocks(INT8_GROUP_WEIGHTS, post_norm=True),
        Operator(
            "Int8GroupEmbedding",
            (_integers("tokens", "m"), *GROUP_TABLE),
            (BLOCK_OUTPUT,),
            has_kernel=False,
        ),
    )
}


def check_call(name: str, inputs: Sequence[ir.Value]) -> None:
    """Checks a call's inputs: their number and, as far as the graph says them, types and shapes.

    Raises:
        ValueError: they are not what the table has for this operator.
    """
    expected = OPERATORS[name].inputs
    if len(inputs) != len(expected):
        raise ValueError(f"{name} takes {len(expected)} inputs and is given {len(inputs)}")
    known: dict[str, tuple[int, str]] = {}
    for tensor, value in zip(expected, inputs, strict=True):
        if value.dtype is not None and value.dtype != tensor.dtype:
            raise ValueError(f"{name}: {tensor.name} is {value.dtype}, not {tensor.dtype}")
        if value.shape is None:
            continue
        found = f"{tensor.name} {value.shape}"
        if len(value.shape) != len(tensor.shape):
            raise ValueError(f"{name}: {found} should be [{', '.join(map(str, tensor.shape))}]")
        for symbol, size in zip(tensor.shape, value.shape.dims, strict=True):
            if not isinstance(size, int):
                continue
            before, where = known.setdefault(str(symbol), (size, found))
            if size != (symbol if isinstance(symbol, int) else before):
                raise ValueError(f"{name}: {found} and {where} differ in {symbol}")
