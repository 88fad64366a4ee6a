"""Claim: rotated weights compute the same function, with activations that fit 8 bits better.

Tiny random checkpoints with a few channels that are far larger than the others, as real models have
them. The graphs of `int8` are run with float32 matrices, so that only the rotation is left.
"""

from __future__ import annotations

import dataclasses
from dataclasses import replace

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from checkpoints import byte_tokenizer, write_llama, write_t5
from depth import one_in
from edgespec.artifact.manifest import read_manifest
from edgespec.device.device import Device
from edgespec.pair.opening.runtime import open_model
from edgespec_export.components.number_format import FullPrecision
from edgespec_export.export_pair import export_pair
from edgespec_export.families.llama_like.llama import Llama
from edgespec_export.operators.int8_ops import INT8_EMBEDDING, INT8_MATMUL
from edgespec_export.quantization.formats import FORMATS
from edgespec_export.quantization.hadamard import (
    block_size,
    hadamard,
    rotated,
)
from edgespec_export.quantization.int8 import Int8
from edgespec_export.quantization.int8_tables import int8_table
from edgespec_export.quantization.rounding import per_channel
from rotated_float import RotatedFloat

SIZES = {
    "vocab_size": 272,
    "tokenizer": byte_tokenizer(272),
    "head_size": 16,
    "width": 64,
    "inner": 96,
}
OUTLIERS = (5, 40)  # channels
PROMPT = [4, 7, 9, 3]
TEXT = [5, 8, 6, 10, 4, 7]


def with_outliers(folder, embedding):
    """Makes some channels of the stream large; the norms shrink them, but not all the way."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    tensors[embedding][:, OUTLIERS] *= 30
    for name, tensor in tensors.items():
        if name.endswith(("layernorm.weight", "layer_norm.weight")):
            tensor[list(OUTLIERS)] /= 3
    if "lm_head.weight" not in tensors:
        tensors[embedding] *= np.float32(1 / 8)
    save_file(tensors, path)
    return folder


def llama(folder, **config):
    return with_outliers(write_llama(folder, **{**SIZES, **config}), "model.embed_tokens.weight")


def t5(folder, **config):
    return with_outliers(write_t5(folder, **{**SIZES, **config}), "shared.weight")


CASES = {
    "t5 v1.0": t5,
    "t5 v1.1": lambda folder, **more: t5(folder, gated=True, encoder_layers=2, **more),
    "t5 v1.1, tied head": lambda folder, **more: t5(
        folder, gated=True, tie_word_embeddings=True, **more
    ),
    "llama": llama,
    "llama, tied head": lambda folder, **more: llama(folder, tie_word_embeddings=True, **more),
    "llama, every bias": lambda folder, **more: llama(
        folder, attention_bias=True, mlp_bias=True, **more
    ),
    "qwen2": lambda folder, **more: llama(
        folder, model_type="qwen2", tie_word_embeddings=True, **more
    ),
    "qwen3": lambda folder, **more: llama(folder, model_type="qwen3", kv_heads=1, **more),
    "llama, blocks of 4": lambda folder, **more: llama(folder, width=60, **more),
    "llama, an odd width": lambda folder, **more: llama(folder, width=63, **more),
}


def logits_of(folder, *formats):
    exported = read_manifest(folder).target
    for name in formats:
        model = open_model(folder, exported, name, device=Device(1), min_rows=2)
        yield model.score([model.prefill(PROMPT), *TEXT]).copy()


@pytest.fixture
def rotated_format(monkeypatch):
    monkeypatch.setitem(FORMATS, "rotated", replace(FORMATS["fp32"], make=RotatedFloat))


def change_by_rotation(source, folder):
    """Largest |difference| of a logit, over the largest logit."""
    export_pair(
        str(source), None, folder, target_formats=["fp32", "rotated"], measure=False, threads=1
    )
    plain, rotated_logits = logits_of(folder, "fp32", "rotated")
    return np.abs(plain - rotated_logits).max() / np.abs(plain).max()


@one_in(2)
@pytest.mark.parametrize("case", CASES)
def test_rotated_weights_are_the_same_function(case, tmp_path, rotated_format):
    source = CASES[case](tmp_path / "checkpoint")
    assert change_by_rotation(source, tmp_path / "pair") <= 1e-5


MISTAKES = {
    "a reader without its norm": lambda r: {"readers": dict(list(r.readers.items())[3:])},
    "a writer that is not rotated": lambda r: {"writers": r.writers - {min(r.writers)}},
    "no matrix after an activation is rotated": lambda r: {"down_projs": frozenset()},
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_forgotten_tensor_changes_the_logits(mistake, tmp_path, rotated_format, monkeypatch):
    right = Llama.residual_stream

    def wrong(self):
        stream = right(self)
        return dataclasses.replace(stream, **MISTAKES[mistake](stream))

    monkeypatch.setattr(Llama, "residual_stream", wrong)
    source = llama(tmp_path / "checkpoint", mlp_bias=True, attention_bias=True)
    assert change_by_rotation(source, tmp_path / "pair") > 1e-2


class Unrotated(Int8):
    """`int8` of the checkpoint's own weights."""

    transform_checkpoint = FullPrecision.transform_checkpoint
    down_proj = FullPrecision.down_proj
    normed_linears = FullPrecision.normed_linears

    def table(self, g, tokens, name):
        (rows,) = g.call(INT8_EMBEDDING, tokens, *int8_table(g, name))
        return rows

    def head(self, g, x, head):
        rows = g.op.Mul(head.norm.emit(g, x), g.constant(head.factor, np.float32))
        matrix, scale = per_channel(g.weights.checkpoint_tensor(head.table))
        weights = (
            g.stored(f"{head.table}.head", lambda: matrix),
            g.stored("head.scale", lambda: scale),
        )
        (y,) = g.call(INT8_MATMUL, rows, *weights)
        return y


@one_in(2)
@pytest.mark.parametrize("case", ["t5 v1.0", "t5 v1.1", "llama", "llama, tied head", "qwen2"])
def test_int8_is_nearer_to_float32_when_rotated(case, tmp_path, monkeypatch):
    monkeypatch.setitem(FORMATS, "unrotated", replace(FORMATS["fp32"], make=Unrotated))
    source = CASES[case](tmp_path / "checkpoint", width=512)
    formats = ["fp32", "int8", "unrotated"]
    export_pair(str(source), None, tmp_path / "pair", target_formats=formats, threads=1)
    exact, int8, unrotated = logits_of(tmp_path / "pair", *formats)
    assert np.abs(int8 - exact).mean() < 0.75 * np.abs(unrotated - exact).mean()
    variant = read_manifest(tmp_path / "pair").target.variants["int8"]
    assert variant.row_invariance.is_row_invariant
    assert variant.row_invariance.min_rows <= 2


@pytest.mark.parametrize(
    ("case", "table"), [(llama, "model.embed_tokens.weight"), (t5, "shared.weight")]
)
def test_a_tied_table_is_stored_once_and_in_8_bits(case, table, tmp_path):
    source = case(tmp_path / "checkpoint", tie_word_embeddings=True)
    export_pair(
        str(source), None, tmp_path / "pair", target_formats=["int8"], measure=False, threads=1
    )
    graph = onnx.load(tmp_path / "pair/target/int8/decoder.onnx", load_external_data=False).graph
    stored = {i.name: i for i in graph.initializer if i.name.startswith(table)}
    assert stored.keys() == {f"{table}.int8", f"{table}.scale"}
    assert list(stored[f"{table}.int8"].dims) == [272, 64]
    assert stored[f"{table}.int8"].data_type == onnx.TensorProto.INT8


@given(st.integers(1, 5), st.sampled_from([1, 7, 30, 48, 64, 576]))
def test_a_second_rotation_undoes_the_first(rows, width):
    matrix = np.random.default_rng(width).standard_normal((rows, width), np.float32)
    assert np.allclose(rotated(rotated(matrix, 64), 64), matrix, atol=1e-5)
    assert np.allclose((rotated(matrix, 64) ** 2).sum(), (matrix**2).sum(), rtol=1e-5)


@pytest.mark.parametrize(
    ("width", "most", "size"),
    [(576, 512, 64), (4096, 512, 512), (4096, 64, 64), (384, 64, 64), (60, 64, 4), (63, 64, 1)],
)
def test_blocks_are_the_largest_powers_of_two(width, most, size):
    assert block_size(width, most) == size
    assert np.array_equal(np.abs(hadamard(size)), np.full((size, size), np.float32(size**-0.5)))


def test_int8_takes_a_byte_a_parameter(tmp_path):
    """A draft of SmolLM2's width; scales, norms and padding are the rest."""
    source = write_llama(
        tmp_path / "checkpoint",
        vocab_size=8192,
        tokenizer=byte_tokenizer(8192),
        layers=2,
        heads=9,
        kv_heads=3,
        head_size=64,
        inner=1536,
        tie_word_embeddings=True,
    )
    export_pair(
        str(source), None, tmp_path / "pair", target_formats=["int8"], measure=False, threads=1
    )
    parameters = sum(tensor.size for tensor in load_file(source / "model.safetensors").values())
    assert (tmp_path / "pair/target/int8/weights.data").stat().st_size <= 1.02 * parameters
