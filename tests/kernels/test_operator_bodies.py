"""Claim: an operator's body keeps its meaning as long as the operator keeps its name."""

from __future__ import annotations

import pytest

from attention_calls import attributes_of
from edgespec_export.operators.activations import GATES, RELU
from edgespec_export.operators.attention.attention_ops import ENCODER_ATTENTION, SOURCE_ATTENTION
from edgespec_export.operators.attention.self_attention_ops import SELF_ATTENTION
from edgespec_export.operators.convolution_ops import SHORT_CONVOLUTION
from edgespec_export.operators.delta_ops import GATED_DELTA
from edgespec_export.operators.half_ops import (
    BFLOAT16_MATMUL,
    BFLOAT16_ROW_MATMUL,
    FLOAT16_MATMUL,
    RMS_NORM_BFLOAT16_ROW_MATMUL,
)
from edgespec_export.operators.int8_ops import (
    HADAMARD_INT8_MATMUL,
    HADAMARD_ROTATION,
    INT8_EMBEDDING,
    INT8_HEAD,
    INT8_MATMUL,
    RMS_NORM_HADAMARD_INT8_MATMUL,
    RMS_NORM_INT8_MATMUL,
)
from edgespec_export.operators.norm_ops import RMS_NORM
from edgespec_export.passes.fuse_blocks import FUSED_BLOCKS

BLOCKS = {block.whole.name: block for block in FUSED_BLOCKS}
ROUNDED = "Abs ReduceMax Mul Max Div QuantizeLinear"
SCALED = "MatMulInteger Cast Mul Mul"
VALID = "TensorScatter Slice"
ALL_VALID = "TensorScatter TensorScatter Slice Slice"  # numbers and scales
BY_HEAD = "Shape Concat Reshape Transpose"
NARROW_START = "Reshape Cast Concat Cast Add Shape Sub Shape Shape"
CAUSAL = "Reshape Reshape Range Range Unsqueeze LessOrEqual Where"
QUERIES = f"{BY_HEAD} Shape Concat Shape Concat Reshape"
WEIGHED = "Shape Shape Concat Reshape Add Softmax Concat Reshape"
NARROW_END = "Cast MatMul Reshape Transpose Shape Reshape"
ROTATED_ROWS = "Unsqueeze RotaryEmbedding Squeeze Unsqueeze RotaryEmbedding Squeeze"


def narrow_bodies(before, bias):
    """The bodies of attention over a float16 and over an int8 cache."""
    rounded, stored = f"{BY_HEAD} Cast {VALID}", f"{BY_HEAD} {ROUNDED} {ALL_VALID}"
    start, middle = f"{before}{NARROW_START}", f"{CAUSAL} {bias}{QUERIES} Cast Transpose MatMul Mul"
    return {
        "fp16": f"{start} {rounded} {rounded} {middle} {WEIGHED} {NARROW_END}",
        "int8": f"{start} {stored} {stored} {middle} Transpose Mul {WEIGHED} Transpose Mul "
        f"{NARROW_END}",
    }


BODIES = [
    (INT8_MATMUL, {}, f"{ROUNDED} {SCALED}"),
    (
        RMS_NORM_INT8_MATMUL,
        {"epsilon": 1e-5, "step": 0.1},
        f"RMSNormalization QuantizeLinear {SCALED}",
    ),
    (
        HADAMARD_INT8_MATMUL,
        {"blocks": [-1, 2], "rows": [-1, 4]},
        f"Reshape MatMul Reshape {ROUNDED} {SCALED}",
    ),
    (
        RMS_NORM_HADAMARD_INT8_MATMUL,
        {"epsilon": 1e-5, "blocks": [-1, 2], "rows": [-1, 4]},
        f"RMSNormalization Reshape MatMul Reshape {ROUNDED} {SCALED}",
    ),
    (FLOAT16_MATMUL, {}, "Cast Gemm"),
    (BFLOAT16_MATMUL, {}, "Cast Gemm"),
    (BFLOAT16_ROW_MATMUL, {}, "Cast Cast Cast Gemm"),
    (
        RMS_NORM_BFLOAT16_ROW_MATMUL,
        {"epsilon": 1e-5},
        "RMSNormalization Cast Cast Cast Gemm",
    ),
    (INT8_EMBEDDING, {}, "Gather Cast Gather Unsqueeze Mul"),
    (HADAMARD_ROTATION, {"blocks": [-1, 2], "rows": [-1, 4]}, "Reshape MatMul Reshape"),
    (
        INT8_HEAD,
        {"epsilon": 1e-5, "blocks": [-1, 2], "rows": [-1, 4]},
        "Reshape MatMul Reshape RMSNormalization Transpose Reshape MatMul Reshape "
        f"{ROUNDED} {SCALED} Min Shape Mul Slice Max Slice Mul Sub Max TopK Slice Slice Div Mul "
        "Max Slice ReduceMax Sub Exp ReduceSum Slice Slice Sub Exp Div",
    ),
    (
        SELF_ATTENTION["Rotary"]["fp32"],
        attributes_of((2, 1, 16)),
        "Unsqueeze Unsqueeze Unsqueeze RotaryEmbedding RotaryEmbedding "
        "Reshape Cast Concat Pad Pad Pad Add Add GroupQueryAttention Slice Squeeze",
    ),
    (
        SELF_ATTENTION["Biased"]["fp32"],
        attributes_of((2, 1, 16)),
        "Unsqueeze Unsqueeze Unsqueeze Reshape Cast Concat "
        "Pad Pad Pad Add Add Pad GroupQueryAttention Slice Squeeze",
    ),
    *(
        (functions[cache], attributes_of((2, 1, 16), functions[cache]), body)
        for functions, bodies in (
            (SELF_ATTENTION["Rotary"], narrow_bodies(f"{ROTATED_ROWS} ", "")),
            (SELF_ATTENTION["Biased"], narrow_bodies("", "Add ")),
        )
        for cache, body in bodies.items()
    ),
    (
        SOURCE_ATTENTION,
        attributes_of((2, 2, 16)),
        "Reshape Unsqueeze Pad MultiHeadAttention Concat Slice Squeeze",
    ),
    (
        ENCODER_ATTENTION,
        attributes_of((2, 2, 16)),
        "Unsqueeze Unsqueeze Unsqueeze MultiHeadAttention Squeeze",
    ),
    (
        SHORT_CONVOLUTION[1, "fp32"],
        {"taps": 2},
        "Reshape Cast Concat Cast Add Shape Sub Reshape Reshape Gather Gather Range Shape Gather "
        "Mul Unsqueeze Sub Reshape GreaterOrEqual Max ReduceProd Mul Shape Sub Concat Pad Concat "
        "Reshape Transpose Slice Slice TensorScatter Gather TensorScatter Gather Concat Transpose "
        "Flatten Shape Slice Unsqueeze Where Concat Reshape Mul Gather Mul Add Mul",
    ),
    (
        GATED_DELTA,
        {"k_heads": 1, "v_heads": 1, "key_size": 4, "value_size": 4},
        "Reshape Concat Reshape Add Slice Add Slice Add Slice Add Slice Add Slice Add Slice "
        "Concat Shape Add Max Sub Slice Shape Mod Unsqueeze TensorScatter Reshape Reshape Range "
        "Shape Mod Squeeze Gather Concat Reshape Reshape Reshape Reshape Concat ReduceProd "
        "Slice Reshape Slice Shape Concat Reshape Sub Squeeze Loop Reshape Reshape Mul Concat "
        "Reshape Sub Squeeze Sub Squeeze Loop Reshape Reshape Mul Concat Reshape Concat Sub "
        "Slice Reshape Reshape Concat Unsqueeze",
    ),
    (RMS_NORM, {"epsilon": 1e-5}, "RMSNormalization"),
    (GATES["silu"], {}, "Sigmoid Mul Mul"),
    (GATES["gelu_new"], {}, "Gelu Mul"),
    (RELU, {}, "Relu"),
    *(
        (
            fused.whole,
            {n: [1] * fused.columns if n == "widths" else 1.0 for n in fused.whole.attributes},
            f"{fused.opening.name} {'Sum ' * fused.has_bias}"
            f"{'Split ' * (fused.columns > 1)}{fused.inner.name} "
            f"{fused.closing.name} {'RMSNorm ' * bool(fused.post_norm)}Add",
        )
        for fused in BLOCKS.values()
    ),
]


@pytest.mark.parametrize(("function", "attributes", "body"), BODIES, ids=lambda v: str(v)[:20])
def test_a_body_that_changes_needs_a_new_operator_name(function, attributes, body):
    """A kernel is found by its name alone, and an older one would go on with the old meaning: give
    the function another name, write its kernel, and then change this list. A body that computes the
    same in another way keeps its name."""
    nodes = (node.op_type for node in function.built(attributes))
    assert " ".join(node for node in nodes if node != "Constant") == body
