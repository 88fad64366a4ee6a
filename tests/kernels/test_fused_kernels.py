"""Claim: a fused block has the bits of the operators that it consists of."""

from __future__ import annotations

import os
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import onnx_ir as ir
import pytest

from attention_calls import KINDS, NO_SOURCES, attributes_of, cached_inputs
from convolution_calls import TAPS, cached_convolution
from depth import by_turns, one_in
from edgespec.device.device import Device
from edgespec.device.kernels import SWITCH, installed_kernels
from edgespec.errors import EdgespecError
from edgespec_export.onnx_graph.graph import Graph
from edgespec_export.onnx_graph.operator_parts import CLOSING, POST_NORM_NAMES
from edgespec_export.operators.activations import RELU
from edgespec_export.passes.fuse_blocks import FUSED_BLOCKS, fuse_blocks
from edgespec_export.quantization.hadamard import hadamard
from edgespec_runtimes.ort.session import open_session
from operator_calls import (
    MANY,
    add_outputs,
    bfloat16_weights_of,
    int4_int8_weights_of,
    int4_weights_of,
    int8_group_weights_of,
    one_call,
    rows_of,
    weights_of,
)

KERNELS = installed_kernels()
pytestmark = pytest.mark.skipif(KERNELS is None, reason="there are no kernels here")
ALL = {block.whole.name: block for block in FUSED_BLOCKS}
# Blocks of convolutions that differ by their cache and their products; EDGESPEC_CORPUS=all: all.
CONVOLUTIONS = {
    "ShortConvolutionBlock",
    "TwoLayerInt8CacheShortConvolutionPostNormBlock",
    "Int4TwoLayerFloat16CacheShortConvolutionBlock",
    "Int8GroupShortConvolutionPostNormBlock",
}
BLOCKS = {
    name: block
    for name, block in ALL.items()
    if "Convolution" not in name
    or name in CONVOLUTIONS
    or os.environ.get("EDGESPEC_CORPUS") == "all"
}
STREAM = 96  # columns
CONVOLVED = 128  # columns of a convolution, which fill their layers of the cache


def cached_parts(rng, count, shape, complete):
    """The inputs of self-attention that follow queries, keys and values."""
    inputs = complete(rng, cached_inputs(rng, shape, count, 70, 70 + count + 3), shape)
    return {name: value for name, value in inputs.items() if name not in ("q", "k", "v")}


# By the start of a product's name: weights, and attributes with their sizes.
PRODUCTS = {
    "Int8": (weights_of, lambda width, out: {}),
    "Int4": (int4_weights_of, lambda width, out: {"k": width, "n": out}),
    "Int4Int8": (int4_int8_weights_of, lambda width, out: {}),
    "Int8Group": (int8_group_weights_of, lambda width, out: {"k": width, "n": out}),
    "BFloat16Row": (bfloat16_weights_of, lambda width, out: {}),
}


def product_of(rng, function, width, out):
    """Weights of a product, or of one of normed or rotated rows, and its attributes."""
    kind = function.name.removeprefix("RMSNorm").removeprefix("Hadamard").removesuffix("MatMul")
    make, sizes = PRODUCTS[kind]
    fixed, attributes = make(rng, width, out), sizes(width, out)
    if "Hadamard" in function.name:
        block = 32 if width == STREAM else 64
        fixed |= {"hadamard": hadamard(block)}
        attributes |= {"blocks": [-1, block], "rows": [-1, width]}
    return fixed, attributes


def block_inputs(rng, name, count):
    """A fused block with inputs, constants and attributes."""
    fused = BLOCKS[name]
    inputs = {"x": rows_of(rng, count, STREAM)}
    attributes, inner = {"epsilon": 1e-5, "step": 4 / 127}, fused.inner.name
    if "Attention" in inner:
        shape = (4, 4, 16) if fused.columns == 1 else (4, 2, 16)
        heads, kv_heads, size = shape
        attributes |= attributes_of(shape, fused.inner)
        widths, middle = [heads * size, kv_heads * size, kv_heads * size], heads * size
        if fused.columns == 1:
            widths = widths[:1]
            for source in ("key", "value"):
                inputs[source] = rng.normal(size=(1, heads, 9, size)).astype(np.float32)
            inputs["sources"] = NO_SOURCES
        else:
            (complete,) = (c for function, c in KINDS.values() if function is fused.inner)
            inputs |= cached_parts(rng, count, shape, complete)
    elif "Convolution" in inner:
        middle = CONVOLVED
        widths = [middle] * 3
        inputs |= cached_convolution(rng, fused.inner, count, middle)
        attributes["taps"] = TAPS
    else:
        middle = 192
        widths = [middle] * fused.columns
    if len(widths) > 1:
        attributes["widths"] = widths
    opening, more = product_of(rng, fused.opening, STREAM, sum(widths))
    closing, closing_more = product_of(rng, fused.closing, middle, STREAM)
    attributes |= more | {CLOSING[name]: value for name, value in closing_more.items()}
    fixed = {"norm": rng.uniform(0.5, 2, STREAM).astype(np.float32)} | opening
    fixed |= {f"closing_{name}": value for name, value in closing.items()}
    if fused.has_bias:
        fixed["projection_bias"] = rng.normal(size=sum(widths)).astype(np.float32)
    if fused.post_norm:
        fixed["post_norm"] = rng.uniform(0.5, 2, STREAM).astype(np.float32)
        attributes["post_epsilon"] = 1e-6
    known = set(fused.whole.attributes)
    return fused, inputs, fixed, {name: attributes[name] for name in attributes if name in known}


def by_parts(g, fused, values, attributes):
    """Emits a block operator by operator: its outputs, and the inner operator's as the last."""

    def call(function, *given, renamed=MappingProxyType({})):
        names = {name: renamed.get(name, name) for name in function.attributes}
        at_hand = {name: attributes[at] for name, at in names.items() if at in attributes}
        return g.call(function, *given, **at_hand)

    ordered = [values[name] for name in fused.whole.inputs]
    first, last = len(fused.opening.inputs), len(fused.closing.inputs) - 1
    opening, rest = ordered[:first], ordered[first:]
    with g.block("block"):
        (y,) = call(fused.opening, *opening)
        if fused.has_bias:
            y = g.op.Sum(y, rest.pop(0))
        parts = g.split(y, attributes["widths"]) if fused.columns > 1 else [y]
        norm = [rest.pop()] if fused.post_norm else []
        middle, *others = call(fused.inner, *parts, *rest[:-last])
        (closed,) = call(fused.closing, middle, *rest[-last:], renamed=CLOSING)
        if fused.post_norm:
            (closed,) = call(fused.post_norm, closed, *norm, renamed=POST_NORM_NAMES)
        return [g.op.Add(opening[0], closed), *others, middle]


def run_by_parts(folder, fused, inputs, fixed, attributes, *, seen):
    """Outputs of a block after the pass, and the operators of its graph.

    Args:
        seen: the inner operator's result is an output of the graph, which prevents the fusion.
    """
    g = Graph("by parts", None)
    values = {n: g.input(n, v.dtype, [None] * v.ndim) for n, v in inputs.items()}
    values |= {n: g.constant(v, v.dtype) for n, v in fixed.items()}
    results = by_parts(g, fused, values, attributes)
    add_outputs(g, fused.whole, results[:-1])
    if seen:
        g.output("seen", results[-1], np.float32, [None, None])
    model = g.model()
    fuse_blocks(model, g.blocks)
    ir.save(model, folder / "parts.onnx")
    operators = [node.op_type for node in model.graph]
    outputs = open_session(folder / "parts.onnx", Device(2)).run(None, inputs)
    return outputs[: fused.whole.outputs], operators


# Rows and threads. A block has one of them by default, with EDGESPEC_DEEP=1 all.
CALLS = [(1, 1), (2, 3), (5, 2), (17, 3), (MANY, 2)]


@one_in(3)
@pytest.mark.parametrize(
    ("name", "count", "threads"),
    [
        (name, *call)
        for number, name in enumerate(BLOCKS)
        for call in by_turns(CALLS, number, len(CALLS))
    ],
)
def test_a_fused_block_has_the_bits_of_its_separate_operators(
    called, rng, tmp_path, name, count, threads
):
    fused, inputs, fixed, attributes = block_inputs(rng, name, count)
    parts, operators = run_by_parts(tmp_path, fused, inputs, fixed, attributes, seen=True)
    assert fused.inner.name in operators
    for _ in range(3):  # threads do not always meet in the same way
        whole = called(fused.whole, inputs, fixed, threads=threads, **attributes)
        for ours, theirs in zip(whole, parts, strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    "name", ["RotaryInt8CacheRowAttentionBlock", "Int4BiasedRowAttentionBlock"]
)
def test_a_fused_block_attends_in_bfloat16_as_its_separate_operators_do(
    called, rng, tmp_path, name
):
    fused, inputs, fixed, attributes = block_inputs(rng, name, 5)
    rounded = attributes | {"bfloat16": 1}
    parts, _ = run_by_parts(tmp_path, fused, inputs, fixed, rounded, seen=True)
    whole = called(fused.whole, inputs, fixed, **rounded)
    for ours, theirs in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert (whole[0] != called(fused.whole, inputs, fixed, **attributes)[0]).any()


@one_in(3, turn=1)
@pytest.mark.parametrize("name", BLOCKS)
def test_a_fused_block_differs_from_the_standard_operators_by_rounding(
    rng, tmp_path, name, monkeypatch
):
    fused, inputs, fixed, attributes = block_inputs(rng, name, 5)
    given = (tmp_path, fused, inputs, fixed, attributes)
    (ours, *_), _ = run_by_parts(*given, seen=False)
    monkeypatch.setenv(SWITCH, "0")
    (theirs, *_), _ = run_by_parts(*given, seen=False)
    added, expected = ours - inputs["x"], theirs - inputs["x"]
    # A number halfway between two of 8 bits may be rounded to either: they differ by 1 of 127.
    assert np.abs(added - expected).max() < 0.03 * np.abs(expected).max()


@one_in(3, turn=2)
@pytest.mark.parametrize("name", BLOCKS)
def test_a_fused_block_without_a_kernel_runs_by_its_body(called, rng, tmp_path, name):
    """Graphs of older exports have other names; operators of the body may still have kernels."""
    fused, inputs, fixed, attributes = block_inputs(rng, name, 5)
    expected = called(fused.whole, inputs, fixed, **attributes)
    model = one_call(fused.whole, inputs, fixed, attributes)
    (node,) = (node for node in model.graph if node.op_type == fused.whole.name)
    node.op_type = f"{fused.whole.name}OfBefore"
    ((identifier, function),) = (
        item for item in model.functions.items() if item[1].name == fused.whole.name
    )
    del model.functions[identifier]
    function.name = node.op_type
    known = attributes.keys() & set(fused.inner.attributes)
    middle = fused.inner.built({name: attributes[name] for name in known})
    model.functions.update({f.identifier(): f for f in (function, middle)})
    ir.save(model, tmp_path / "older.onnx")
    found = open_session(tmp_path / "older.onnx", Device(2)).run(None, inputs)
    for ours, theirs in zip(expected, found, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@one_in(3)
@pytest.mark.parametrize("name", BLOCKS)
def test_operators_of_a_declared_block_are_fused(rng, tmp_path, name):
    fused, inputs, fixed, attributes = block_inputs(rng, name, 5)
    given = (tmp_path, fused, inputs, fixed, attributes)
    joined, operators = run_by_parts(*given, seen=False)
    assert operators == [fused.whole.name]
    parts, _ = run_by_parts(*given, seen=True)
    for ours, theirs in zip(joined, parts, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_block_whose_keys_have_another_use_is_not_fused(rng, tmp_path):
    fused, inputs, fixed, attributes = block_inputs(rng, "RotaryRowAttentionBlock", 5)
    g = Graph("key used", None)
    values = {n: g.input(n, v.dtype, [None] * v.ndim) for n, v in inputs.items()}
    values |= {n: g.constant(v, v.dtype) for n, v in fixed.items()}
    out, key, value, _ = by_parts(g, fused, values, attributes)
    results = ((out, 2), (key, 4), (value, 4), (g.op.Identity(key), 4))
    for index, (result, rank) in enumerate(results):
        g.output(f"result {index}", result, np.float32, [None] * rank)
    model = g.model()
    fusion = fuse_blocks(model, g.blocks)
    assert fused.whole.name not in [node.op_type for node in model.graph]
    assert str(fusion) == (
        "0 of 1 blocks fused; block (1 block) not fused: other operators use the outputs of "
        "RotaryRowAttention"
    )


def test_a_block_that_no_operator_computes_is_not_fused(rng):
    """No model has this one: a norm after a feed-forward with a ReLU."""
    fused, inputs, fixed, attributes = block_inputs(rng, "Int4GeluFeedForwardPostNormBlock", 5)
    g = Graph("not in the table", None)
    values = {n: g.input(n, v.dtype, [None] * v.ndim) for n, v in inputs.items()}
    values |= {n: g.constant(v, v.dtype) for n, v in fixed.items()}
    out, _ = by_parts(g, replace(fused, inner=RELU, columns=1), values, attributes)
    g.output("y", out, np.float32, [None, None])
    assert str(fuse_blocks(g.model(), g.blocks)) == (
        "0 of 1 blocks fused; block (1 block) not fused: no operator computes RMSNormInt4MatMul, "
        "Relu and RMSNorm"
    )


def test_weights_that_do_not_fit_each_other_are_refused(called, rng):
    fused, inputs, fixed, attributes = block_inputs(rng, "SiluFeedForwardBlock", 5)
    wrong = fixed | weights_of(rng, STREAM, 300)
    with pytest.raises(EdgespecError, match=r"weights make 300 columns; 2 \* 192 fit"):
        called(fused.whole, inputs, wrong, **attributes)
    fused, inputs, fixed, attributes = block_inputs(rng, "RotaryRowAttentionBlock", 5)
    wrong = fixed | weights_of(rng, STREAM, 136)
    with pytest.raises(EdgespecError, match="weights make 136 columns; queries, keys and values"):
        called(fused.whole, inputs, wrong, **attributes)
