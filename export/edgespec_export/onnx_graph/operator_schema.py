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

    m: rows of a call (positions); candidates: how many of the last rows are candidates
    k, n: columns before and after a matrix product; inner: columns between the two of a fused block
    block: rows of the Hadamard matrix; vocabulary: token ids
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

__all__ = ["DOMAIN", "OPERATORS", "Attribute", "Operator", "Tensor", "check_call"]

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
    """An attribute of an operator; every call has to give it."""

    name: str
    type: ir.AttributeType


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


def _closing(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """These inputs for a fused block's second product, which is [inner, k] instead of [k, n]."""
    other: dict[int | str, int | str] = {"k": "inner", "n": "k"}
    return tuple(
        replace(
            tensor,
            name=f"closing_{tensor.name}",
            shape=tuple(other.get(size, size) for size in tensor.shape),
        )
        for tensor in tensors
    )


FLOAT, INT8 = ir.DataType.FLOAT, ir.DataType.INT8

X = _floats("x", "m", "k")
Y = _floats("y", "m", "n")
NORM = _floats("norm", "k")
HADAMARD = _constant("hadamard", FLOAT, "block", "block")
WEIGHTS = (_constant("weights", INT8, "k", "n"), _constant("scale", FLOAT, "n"))
TABLE = (_constant("table", INT8, "vocabulary", "k"), _constant("scale", FLOAT, "vocabulary"))

QKV = (_floats("q", "m", "q_width"), _floats("k", "m", "kv_width"), _floats("v", "m", "kv_width"))
CALL = (
    Tensor("last", ir.DataType.INT32, (1,)),
    Tensor("total", ir.DataType.INT32, ()),  # last + 1, which only the body reads
    _integers("parents", "candidates"),
)
ANGLES = (_floats("cos", 1, "m", "half_size"), _floats("sin", 1, "m", "half_size"))
BIAS = (_floats("bias", 1, "heads", "m", "keys"),)
SOURCE = tuple(_floats(name, 1, "kv_heads", "source", "size") for name in ("key", "value"))
ATTENDED = _floats("y", "m", "q_width")

POSITIONS = {"Rotary": ANGLES, "Biased": BIAS}  # by the start of an operator's name


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
        stored = [("key", "size", self.dtype), ("value", "size", self.dtype)]
        if self.scaled:
            stored += [("key_scale", 1, FLOAT), ("value_scale", 1, FLOAT)]
        return tuple(
            Tensor(f"{prefix}_{name}", dtype, (1, "kv_heads", "capacity", width))
            for name, width, dtype in stored
        )


CACHE_FORMATS = (
    CacheFormat("", FLOAT),
    CacheFormat("Float16Cache", ir.DataType.FLOAT16),
    CacheFormat("Int8Cache", INT8, scaled=True),
)

RMS_NORM = (Attribute("epsilon", ir.AttributeType.FLOAT),)
STATIC_SCALE = (*RMS_NORM, Attribute("step", ir.AttributeType.FLOAT))
ROTATION = tuple(Attribute(name, ir.AttributeType.INTS) for name in ("blocks", "rows"))
HEADS = (
    Attribute("num_heads", ir.AttributeType.INT),
    Attribute("kv_num_heads", ir.AttributeType.INT),
    Attribute("scale", ir.AttributeType.FLOAT),
)
WIDTHS = (Attribute("widths", ir.AttributeType.INTS),)

BLOCK_INPUTS = (X, NORM, *WEIGHTS)
BLOCK_OUTPUT = _floats("y", "m", "k")
ATTENTION_CLOSING = _closing(WEIGHTS)
FEED_FORWARD_CLOSING = _closing((HADAMARD, *WEIGHTS))


def _float_matmul(name: str, dtype: ir.DataType) -> Operator:
    return Operator(name, (X, _constant("weights", dtype, "n", "k")), (Y,))


def _gate(name: str) -> Operator:
    return Operator(name, (_floats("gate", "m", "k"), _floats("up", "m", "k")), (BLOCK_OUTPUT,))


def _self_attention(cache: CacheFormat) -> Iterator[Operator]:
    for start, positions in POSITIONS.items():
        inputs = (*QKV, *cache.buffers("past"), *CALL, *positions)
        outputs = (ATTENDED, *cache.buffers("present"))
        yield Operator(f"{start}{cache.name}TreeAttention", inputs, outputs, HEADS)


def _self_attention_blocks(cache: CacheFormat) -> Iterator[Operator]:
    for start, positions in POSITIONS.items():
        middle = (*cache.buffers("past"), *CALL, *positions)
        yield Operator(
            f"{start}{cache.name}AttentionBlock",
            (*BLOCK_INPUTS, *middle, *ATTENTION_CLOSING),
            (BLOCK_OUTPUT, *cache.buffers("present")),
            (*STATIC_SCALE, *HEADS, *WIDTHS),
        )


def _feed_forward_block(name: str, more: tuple[Attribute, ...] = WIDTHS) -> Operator:
    inputs = (*BLOCK_INPUTS, *FEED_FORWARD_CLOSING)
    return Operator(name, inputs, (BLOCK_OUTPUT,), (*STATIC_SCALE, *ROTATION, *more))


OPERATORS = {
    operator.name: operator
    for operator in (
        _float_matmul("Float16MatMul", ir.DataType.FLOAT16),
        _float_matmul("BFloat16MatMul", ir.DataType.BFLOAT16),
        Operator("Int8MatMul", (X, *WEIGHTS), (Y,)),
        Operator("RMSNormInt8MatMul", (X, NORM, *WEIGHTS), (Y,), STATIC_SCALE),
        Operator("HadamardInt8MatMul", (X, HADAMARD, *WEIGHTS), (Y,), ROTATION),
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
        Operator("SourceAttention", (QKV[0], *SOURCE), (ATTENDED,), HEADS),
        *(operator for cache in CACHE_FORMATS for operator in _self_attention_blocks(cache)),
        Operator(
            "CrossAttentionBlock",
            (*BLOCK_INPUTS, *SOURCE, *ATTENTION_CLOSING),
            (BLOCK_OUTPUT,),
            (*STATIC_SCALE, *HEADS),
        ),
        _feed_forward_block("SiluFeedForwardBlock"),
        _feed_forward_block("GeluFeedForwardBlock"),
        _feed_forward_block("ReluFeedForwardBlock", more=()),
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
