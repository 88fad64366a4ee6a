"""Claim: int4-int8 rounds weights to 4 bits whose whole numbers are int8's, takes up errors by what
products read after the rotation, and verifies exactly.
"""

from __future__ import annotations

import logging

import numpy as np
import onnx_ir as ir
import pytest

import edgespec
from checkpoints import byte_tokenizer, write_llama, write_noisy, write_t5
from depth import one_in
from edgespec.artifact.manifest import FusedBlocks, read_manifest
from edgespec.device.device import Device
from edgespec_export.calibration.moments import Moments
from edgespec_export.calibration.texts import BUILT_IN, NONE
from edgespec_export.checkpoint.checkpoint import open_checkpoint
from edgespec_export.checkpoint.sources import resolve
from edgespec_export.export_pair import export_pair
from edgespec_export.families.tensor_check import fitted
from edgespec_export.operators.grouped_rows import GROUP
from edgespec_export.quantization import int4_int8
from edgespec_export.quantization.hadamard import STREAM_BLOCK, rotated
from edgespec_export.quantization.int4_int8 import expandable
from edgespec_export.quantization.recording import RotatedRecording

FORMAT = "int4-int8"
SIZES = {
    "vocab_size": 272,
    "tokenizer": byte_tokenizer(272),
    "heads": 4,
    "head_size": 16,
    "width": 64,
    "inner": 96,
}
TEXTS = [[4, 7, 9, 3, 20], [5, 8, 6, 10, 4, 7, 11]]
QKV = "model.layers.0.self_attn."
FIRST = f"{QKV}q_proj.weight+{QKV}k_proj.weight+{QKV}v_proj.weight"


@pytest.fixture
def rng():
    return np.random.default_rng(7)


# --- rounding ------------------------------------------------------------------------------------


def whole(made):
    """The 8-bit weights that codes, steps and offsets stand for, [out, in]."""
    codes = np.stack([made.codes & 15, made.codes >> 4], axis=-1).reshape(*made.steps.shape, -1)
    weights = codes.astype(np.int64) * made.steps[:, :, None] + made.offsets[:, :, None]
    return weights.reshape(len(codes), -1)


def error_of(made, matrix, moments):
    """|X · differenceᵀ|² of the rounded weights [out, in], where moments = Xᵀ · X."""
    difference = whole(made) * made.scale[:, None].astype(np.float64) - matrix
    return float(np.sum((difference @ moments) * difference))


def moments_of_mixed(rng, width, rows=200):
    """Moments of inputs that depend on each other as a model's do."""
    mixing = rng.normal(size=(width // 4, width)) + 0.3 * rng.normal(size=(1, width))
    x = rng.normal(size=(rows, width // 4)) @ mixing + 0.3 * rng.normal(size=(rows, width))
    return (x.T @ x).astype(np.float32)


@pytest.mark.parametrize("kind", ["normal", "heavy tails", "one large", "zeros", "tiny"])
@pytest.mark.parametrize("has_moments", [False, True])
def test_every_code_stands_for_a_weight_of_8_bits(rng, kind, has_moments):
    matrix = rng.standard_t(2 if kind == "heavy tails" else 30, size=(40, 96)).astype(np.float32)
    if kind == "one large":
        matrix[:, 5] *= 1e4
    matrix *= {"zeros": 0, "tiny": 1e-38}.get(kind, 1)
    made = expandable(matrix, moments_of_mixed(rng, 96) if has_moments else None)
    steps, offsets = made.steps.astype(np.int64), made.offsets.astype(np.int64)
    assert offsets.min() >= -127
    assert (offsets + 15 * steps).max() <= 127
    assert np.isfinite(made.scale).all()


def test_nearest_is_within_half_a_step_or_at_the_end_of_a_grid(rng):
    matrix = rng.normal(size=(40, 96)).astype(np.float32)
    made = expandable(matrix, None)
    step, low = (np.repeat(x.astype(np.float64), GROUP, axis=1) for x in (made.steps, made.offsets))
    weights, wanted = whole(made), matrix / made.scale[:, None]
    ends = (weights == low) | (weights == low + 15 * step)
    assert (ends | (np.abs(weights - wanted) <= 0.501 * step)).all()


def test_searched_steps_are_better_than_the_widest(rng, monkeypatch):
    matrix = rng.standard_t(3, size=(40, 96)).astype(np.float32)
    searched = error_of(expandable(matrix, None), matrix, np.eye(96))
    monkeypatch.setattr(int4_int8, "STEPS", 1)
    widest = error_of(expandable(matrix, None), matrix, np.eye(96))
    assert searched < 0.95 * widest


@pytest.mark.parametrize("seed", range(5))
def test_error_feedback_costs_less_than_half_of_nearest(seed):
    rng = np.random.default_rng(seed)
    matrix, moments = rng.normal(size=(40, 96)).astype(np.float32), moments_of_mixed(rng, 96)
    by_nearest = error_of(expandable(matrix, None), matrix, moments)
    assert error_of(expandable(matrix, moments), matrix, moments) < 0.5 * by_nearest


# --- moments -------------------------------------------------------------------------------------


def test_the_moments_are_those_of_rotated_rows(tmp_path):
    source = write_llama(tmp_path / "checkpoint", **SIZES)
    checkpoint = open_checkpoint(resolve(str(source)))
    (tmp_path / "scratch").mkdir()
    moments = Moments(
        checkpoint.weights,
        fitted(checkpoint),
        tmp_path / "scratch",
        TEXTS,
        Device(1),
        RotatedRecording,
    )
    x = checkpoint.weights.read("model.embed_tokens.weight")[np.concatenate(TEXTS)].astype("f4")
    x /= np.sqrt((x.astype(np.float64) ** 2).mean(axis=1, keepdims=True) + 1e-6)
    x = rotated(x, STREAM_BLOCK)  # without the norm's weights, which the matrices have
    np.testing.assert_allclose(moments.of(FIRST), x.T @ x, rtol=1e-3, atol=1e-3)


# --- exports -------------------------------------------------------------------------------------


def export(source, tmp_path, draft=None, **options):
    draft = None if draft is None else str(draft)
    formats = options.pop("target_formats", [FORMAT])
    return export_pair(
        str(source), draft, tmp_path / "pair", target_formats=formats, threads=1, **options
    )


@one_in(2)
@pytest.mark.parametrize("write", [write_llama, write_t5])
@pytest.mark.parametrize("calibration", [BUILT_IN, NONE])
def test_text_with_a_draft_is_the_text_without(write, calibration, tmp_path):
    source = write(tmp_path / "checkpoint", **SIZES)
    draft = write_noisy(source, tmp_path / "draft", noise=0.05)
    manifest = export(source, tmp_path, draft, draft_formats=[FORMAT], calibration=calibration)
    assert manifest.target.variants[FORMAT].row_invariance.is_row_invariant
    pair = edgespec.load(tmp_path / "pair", threads=1)
    for prompt in TEXTS:
        plain = pair.generate(prompt, draft=False, max_new_tokens=24)
        assert pair.generate(prompt, gamma=4, max_new_tokens=24).token_ids == plain.token_ids


def test_matrices_take_nine_bytes_where_int8_takes_sixteen(tmp_path):
    source = write_llama(tmp_path / "checkpoint", **SIZES)
    export(source, tmp_path, target_formats=[FORMAT, "int8"], measure=False)
    ours, theirs = (
        ir.load(tmp_path / "pair" / "target" / name / "decoder.onnx").graph.initializers
        for name in (FORMAT, "int8")
    )
    parts = [v for name, v in ours.items() if name.startswith(f"{FIRST}.") and "scale" not in name]
    assert sum(value.const_value.nbytes for value in parts) == 9 / 16 * (
        theirs[f"{FIRST}.int8"].const_value.nbytes
    )


def test_a_width_that_groups_do_not_divide_stays_int8_and_the_export_says_so(tmp_path, caplog):
    source = write_llama(tmp_path / "checkpoint", **{**SIZES, "inner": 80})
    with caplog.at_level(logging.INFO, logger="edgespec"):
        export(source, tmp_path, measure=False)
    variant = read_manifest(tmp_path / "pair").target.variants[FORMAT]
    assert variant.blocks == {"decoder": FusedBlocks(3, 6)}
    said = "model.layers.*.mlp.down_proj.weight: 80 inputs are no multiple of 32"
    assert caplog.text.count(f"{said}; stored in int8 instead of {FORMAT}") == 1
