"""Claim: int8-groups keeps the weights of a GGUF file in Q8_0 exactly, tables included."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from gguf.constants import GGMLQuantizationType
from gguf.quants import dequantize, quantize

import edgespec
from checkpoints import byte_tokenizer, write_llama, write_noisy, write_t5
from depth import one_in
from edgespec.artifact.manifest import read_manifest
from edgespec.device.device import Device
from edgespec_export.export_pair import export_pair
from edgespec_export.onnx_graph.graph import Graph
from edgespec_export.operators.int8_group_ops import INT8_GROUP_EMBEDDING, ZERO_POINT
from edgespec_export.quantization.int8_groups import rounded_in_groups
from edgespec_runtimes.ort.session import open_session

SIZES = {
    "vocab_size": 272,
    "tokenizer": byte_tokenizer(272),
    "heads": 4,
    "head_size": 16,
    "width": 64,
    "inner": 96,
}


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def restored(codes, scale):
    """The numbers that codes and scales stand for, [out, in]."""
    whole = codes.astype(np.float32) - ZERO_POINT
    return (whole * scale[:, :, None].astype(np.float32)).reshape(len(codes), -1)


def in_q8_0(matrix):
    """The matrix as GGUF's reference code rounds it."""
    kind = GGMLQuantizationType.Q8_0
    return dequantize(quantize(matrix, kind), kind)


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e3])
def test_weights_in_q8_0_stay_exact(rng, size):
    matrix = in_q8_0((rng.standard_t(3, size=(40, 96)) * size).astype(np.float32))
    matrix[3, :32] = 0
    np.testing.assert_array_equal(restored(*rounded_in_groups(matrix)), matrix)


def test_other_weights_are_within_half_a_step(rng):
    matrix = rng.normal(size=(40, 96)).astype(np.float32)
    codes, scale = rounded_in_groups(matrix)
    step = np.repeat(scale.astype(np.float32), 32, axis=1)
    error = np.abs(restored(codes, scale) - matrix)
    assert (error <= 0.5 * step * (1 + 1e-5) + 127 * step * 2.0**-11).all()


def test_weights_that_vanish_stay_finite():
    codes, scale = rounded_in_groups(np.full((3, 64), 1e-9, np.float32))
    assert (restored(codes, scale) == 0).all()


def test_the_embedding_is_the_tables_rows(rng, tmp_path):
    table = in_q8_0(rng.normal(size=(50, 64)).astype(np.float32))
    codes, scale = rounded_in_groups(table)
    g = Graph("one call", None)
    tokens = g.input("tokens", np.int64, [None])
    fixed = (g.constant(codes, np.uint8), g.constant(scale, np.float16))
    (rows,) = g.call(INT8_GROUP_EMBEDDING, tokens, *fixed)
    g.output("rows", rows, np.float32, [None, 64])
    ir.save(g.model(), tmp_path / "call.onnx")
    ids = np.array([3, 49, 0, 3])
    (found,) = open_session(tmp_path / "call.onnx", Device(1)).run(None, {"tokens": ids})
    np.testing.assert_array_equal(found, table[ids])


@one_in(2)
@pytest.mark.parametrize("write", [write_llama, write_t5])
def test_text_with_a_draft_is_the_text_without(write, tmp_path):
    source = write(tmp_path / "checkpoint", **SIZES)
    draft = write_noisy(source, tmp_path / "draft", noise=0.05)
    manifest = export_pair(
        str(source),
        str(draft),
        tmp_path / "pair",
        target_formats=["int8-groups"],
        draft_formats=["int8-groups"],
        threads=1,
    )
    assert manifest.target.variants["int8-groups"].row_invariance.is_row_invariant
    pair = edgespec.load(tmp_path / "pair", threads=1)
    for prompt in ([4, 7, 9, 3, 20], [5, 8, 6, 10, 4, 7, 11]):
        plain = pair.generate(prompt, draft=False, max_new_tokens=24)
        assert pair.generate(prompt, gamma=4, max_new_tokens=24).token_ids == plain.token_ids


def test_all_blocks_are_fused(tmp_path):
    source = write_llama(tmp_path / "checkpoint", **SIZES)
    formats = ["int8-groups"]
    export_pair(str(source), None, tmp_path / "pair", target_formats=formats, measure=False)
    (blocks,) = read_manifest(tmp_path / "pair").target.variants["int8-groups"].blocks.values()
    assert blocks.fused == blocks.total
