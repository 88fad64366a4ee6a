"""The operators of the ONNX domain "edgespec": which parts each is made of.

This table and its parts (`operator_parts`) are the only place that lists them; three places read
it:

    OPERATORS ─┬─ functions.py: signatures of the ONNX functions, which hold the bodies
               ├─ Operator.check_call: refuses a call with wrong inputs during the export
               └─ scripts/generate_operator_header.py: the table as C++ for the kernels
                  (runtimes/kernels/src/schema/operators.inc)

For example, `Int8MatMul` has the parts ProductRows and Int8Weights:

    Int8MatMul: x float32 [m, k], weights int8 [k, n], scale float32 [n] → y float32 [m, n]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from edgespec_export.onnx_graph import operator_parts as parts
from edgespec_export.onnx_graph.operator_spec import Operator, Part

__all__ = ["DOMAIN", "OPERATORS", "WITH_POST_NORM", "WITH_PROJECTION_BIAS"]

DOMAIN = "edgespec"

# Encodings of models with a norm after each block, which are Gemma's.
WITH_POST_NORM = ("NormedRotary", "NormedWindowed")
# Those of models whose queries, keys and values have biases: Qwen2.5's, and some of Llama's.
WITH_PROJECTION_BIAS = ("Rotary",)


@dataclass(frozen=True)
class WeightFormat:
    """A format of weights that has products and fused blocks.

    Attributes:
        name: in the products' names.
        blocks: the start of the fused blocks' names.
        norm: of rows before a product.
        rotation: of a feed-forward's activations, if there is one; also of normed rows, where a
            norm after each block keeps the residual stream unrotated.
    """

    name: str
    blocks: str
    weights: Part
    norm: Part
    rotation: tuple[Part, ...] = ()

    def opening(self, *, is_rotated: bool) -> tuple[Part, ...]:
        """What a product of normed rows has besides them; they may be rotated before it."""
        norm = (parts.NORM, *self.rotation) if is_rotated else (self.norm,)
        return (*norm, self.weights)

    def products(self) -> Iterator[Operator]:
        """Products of rows rounded to 8 bits, or to bfloat16."""
        name = f"{self.name}MatMul"
        yield Operator(name, "MatMul", (parts.PRODUCT_ROWS, self.weights))
        yield self._normed_product(f"RMSNorm{name}", is_rotated=False)
        if self.rotation:
            yield self._normed_product(f"RMSNormHadamard{name}", is_rotated=True)
            rotated = (parts.PRODUCT_ROWS, *self.rotation, self.weights)
            yield Operator(f"Hadamard{name}", "MatMul", rotated)

    def _normed_product(self, name: str, *, is_rotated: bool) -> Operator:
        opening = self.opening(is_rotated=is_rotated)
        return Operator(name, "MatMul", (parts.PRODUCT_ROWS, *opening))

    def fused_blocks(self) -> Iterator[Operator]:
        """Whole blocks of a layer: an opening product of the norm, and a closing one."""
        for cache in parts.CACHES:
            for encoding in parts.ENCODINGS:
                yield self._self_attention(encoding, cache)
            for encoding in WITH_PROJECTION_BIAS:
                yield self._self_attention(encoding, cache, has_bias=True)
            for encoding in WITH_POST_NORM:
                yield self._self_attention(encoding, cache, has_post_norm=True)
        for cache in parts.CONVOLUTION_CACHES:
            yield self._convolution(cache)
            yield self._convolution(cache, has_post_norm=True)
        source = (parts.HEADS, parts.SOURCE, parts.closing(self.weights))
        yield self._block("CrossRowAttention", "CrossAttentionBlock", source)
        yield self._feed_forward("Silu", parts.WIDTHS)
        yield self._feed_forward("Silu", parts.WIDTHS, has_post_norm=True)
        yield self._feed_forward("Gelu", parts.WIDTHS)
        yield self._feed_forward("Gelu", parts.WIDTHS, has_post_norm=True)
        yield self._feed_forward("Relu")

    def _self_attention(
        self, encoding: str, cache: str, *, has_bias: bool = False, has_post_norm: bool = False
    ) -> Operator:
        attention = (parts.CACHES[cache], parts.CALL, parts.HEADS, parts.ENCODINGS[encoding])
        bias = (parts.PROJECTION_BIAS,) if has_bias else ()
        middle = (*bias, *attention, parts.WIDTHS, parts.closing(self.weights))
        name = f"{encoding}{cache}RowAttention{'ProjectionBias' if has_bias else ''}"
        return self._block(name, "SelfAttentionBlock", middle, has_post_norm=has_post_norm)

    def _convolution(self, cache: str, *, has_post_norm: bool = False) -> Operator:
        call = (parts.CONVOLUTION_CACHES[cache], parts.CALL, parts.TAPS, parts.WIDTHS)
        name, kernel = f"{cache}ShortConvolution", "ShortConvolutionBlock"
        return self._block(
            name, kernel, (*call, *self._rotated_closing()), has_post_norm=has_post_norm
        )

    def _rotated_closing(self) -> tuple[Part, ...]:
        """The second product of rows that may be rotated before it."""
        return tuple(map(parts.closing, (*self.rotation, self.weights)))

    def _feed_forward(
        self, activation: str, *widths: Part, has_post_norm: bool = False
    ) -> Operator:
        middle = (*widths, *self._rotated_closing())
        name, kernel = f"{activation}FeedForward", f"{activation}FeedForwardBlock"
        return self._block(name, kernel, middle, has_post_norm=has_post_norm)

    def _block(
        self, name: str, kernel: str, middle: tuple[Part, ...], *, has_post_norm: bool = False
    ) -> Operator:
        """A block of the opening product, the parts `middle` and perhaps a norm after it."""
        opening = self.opening(is_rotated=has_post_norm and bool(self.rotation))
        after = (parts.POST_NORM,) if has_post_norm else ()
        whole = f"{self.blocks}{name}{'PostNorm' if has_post_norm else ''}Block"
        return Operator(whole, kernel, (parts.STREAM_ROWS, *opening, *middle, *after))


WEIGHT_FORMATS = (
    WeightFormat("Int8", "", parts.INT8_WEIGHTS, parts.STATIC_NORM, (parts.HADAMARD,)),
    WeightFormat("Int4", "Int4", parts.INT4_WEIGHTS, parts.NORM),
    WeightFormat(
        "Int4Int8", "Int4Int8", parts.INT4_INT8_WEIGHTS, parts.STATIC_NORM, (parts.HADAMARD,)
    ),
    WeightFormat("Int8Group", "Int8Group", parts.INT8_GROUP_WEIGHTS, parts.NORM),
    WeightFormat("BFloat16Row", "BFloat16Row", parts.BFLOAT16_WEIGHTS, parts.NORM),
)


def _row_operators() -> Iterator[Operator]:
    """Operators on rows of numbers, and products of float32 rows with weights of 16 bits."""
    for name, weights in (("Float16", parts.FLOAT16_WEIGHTS), ("BFloat16", parts.BFLOAT16_WEIGHTS)):
        yield Operator(f"{name}MatMul", "HalfMatMul", (parts.PRODUCT_ROWS, weights))
    yield Operator("RMSNorm", "RMSNorm", (parts.STREAM_ROWS, parts.NORM))
    yield Operator("HadamardRotation", "HadamardRotation", (parts.STREAM_ROWS, parts.HADAMARD))
    yield Operator("SiluGate", "SiluGate", (parts.GATE_ROWS,))
    yield Operator("GeluGate", "GeluGate", (parts.GATE_ROWS,))
    yield Operator("Relu", None, (parts.STREAM_ROWS,))


def _table_operators() -> Iterator[Operator]:
    """Operators that read a row of a table for each token."""
    yield Operator("Int8Embedding", "Embedding", (parts.TOKEN_ROWS, parts.INT8_TABLE))
    yield Operator("Int8GroupEmbedding", None, (parts.TOKEN_ROWS, parts.INT8_GROUP_TABLE))
    head = (parts.HEAD_ROWS, parts.NORM, parts.HADAMARD, parts.INT8_TABLE, parts.CHOICE)
    yield Operator("Int8Head", "Head", head)


def _attention() -> Iterator[Operator]:
    for cache, buffers in parts.CACHES.items():
        for start, encoding in parts.ENCODINGS.items():
            name = f"{start}{cache}RowAttention"
            own = (parts.QKV_ROWS, buffers, parts.CALL, parts.HEADS, encoding)
            yield Operator(name, "SelfAttention", own)
    for cache, kept in parts.KEPT_CACHES.items():
        own = (parts.QUERY_ROWS, kept, parts.CALL, parts.HEADS, parts.KEPT_WINDOW)
        yield Operator(f"Kept{cache}RowAttention", "KeptAttention", own)
    source = (parts.QUERY_ROWS, parts.SOURCE, parts.HEADS)
    yield Operator("SourceRowAttention", "SourceAttention", source)
    encoder = (parts.QKV_ROWS, parts.ENCODER_BIAS, parts.HEADS)
    yield Operator("EncoderAttention", "EncoderAttention", encoder)


def _recurrent() -> Iterator[Operator]:
    """Operators that carry a state from position to position."""
    yield Operator("GatedDelta", "GatedDelta", (parts.DELTA_ROWS, parts.DELTA_STATE))


def _convolutions() -> Iterator[Operator]:
    for cache, buffers in parts.CONVOLUTION_CACHES.items():
        own = (parts.CONVOLUTION_ROWS, buffers, parts.CALL, parts.TAPS)
        yield Operator(f"{cache}ShortConvolution", "ShortConvolution", own)


OPERATORS = {
    operator.name: operator
    for operators in (
        _row_operators(),
        _table_operators(),
        _attention(),
        _recurrent(),
        _convolutions(),
        *(each.products() for each in WEIGHT_FORMATS),
        *(each.fused_blocks() for each in WEIGHT_FORMATS),
    )
    for operator in operators
}
