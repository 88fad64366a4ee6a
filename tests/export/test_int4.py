"""Claim: int4 multiplies rows of 8 bits with weights of 4 bits exactly, and rounds weights well.

The bodies are compared with whole numbers and with float64. Rounding with error feedback is never
worse than rounding to nearest on the inputs it was calibrated on, and better because of the
feedback. The moments are those of what the products read, and bounded in memory.
"""

from __future__ import annotations

import logging
from functools import partial

import numpy as np
import onnx_ir as ir
import pytest
from safetensors.numpy import load_file, save_file

import edgespec
from checkpoints import byte_tokenizer, write_llama, write_noisy, write_t5
from depth import one_in
from edgespec.artifact.manifest import FusedBlocks, read_manifest
from edgespec.device.device import Device
from edgespec.device.kernels import SWITCH
from edgespec.errors import EdgespecError, UsageError
from edgespec_export.calibration.moments import Moments, batches
from edgespec_export.calibration.reading_model import ReadingModel
from edgespec_export.calibration.texts import BUILT_IN, NONE, calibration_texts, windows
from edgespec_export.checkpoint.checkpoint import open_checkpoint
from edgespec_export.checkpoint.sources import resolve
from edgespec_export.export_pair import export_pair
from edgespec_export.families.tensor_check import fitted
from edgespec_export.onnx_graph.graph import Graph
from edgespec_export.operators.grouped_rows import GROUP
from edgespec_export.operators.int4_ops import INT4_MATMUL, RMS_NORM_INT4_MATMUL
from edgespec_export.quantization import gptq
from edgespec_export.quantization.gptq import Rounded, float16_grids
from edgespec_export.quantization.rounding import pack_codes
from edgespec_export.quantization.source_grid import on_grid
from edgespec_runtimes.ort.session import open_session

nearest = partial(gptq.nearest, group=GROUP, search=float16_grids)
with_error_feedback = partial(gptq.with_error_feedback, group=GROUP, search=float16_grids)
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


# --- operators -----------------------------------------------------------------------------------


@pytest.fixture
def body(tmp_path, monkeypatch):
    """Runs the body of an operator on x, with the other inputs as constants."""

    def call(function, x, fixed, **attributes):
        g = Graph("one call", None)
        values = {name: g.constant(value, value.dtype) for name, value in fixed.items()}
        values["x"] = g.input("x", np.float32, [None, x.shape[1]])
        (y,) = g.call(function, *(values[name] for name in function.inputs), **attributes)
        g.output("y", y, np.float32, [None, None])
        ir.save(g.model(), tmp_path / "call.onnx")
        monkeypatch.setenv(SWITCH, "0")
        (result,) = open_session(tmp_path / "call.onnx", Device(1)).run(None, {"x": x})
        return result

    return call


def weights_of(rng, width, out):
    groups = width // GROUP
    rounded = Rounded(
        pack_codes(rng.integers(0, 16, (out, groups, GROUP), dtype=np.uint8)),
        rng.uniform(1e-3, 1e-1, (out, groups)).astype(np.float16),
        rng.normal(0, 0.3, (out, groups)).astype(np.float16),
    )
    return inputs_of(rounded), {"k": width, "n": out}, restored(rounded)


def inputs_of(rounded):
    return dict(zip(("weights", "scale", "minimum"), rounded, strict=True))


def restored(rounded):
    """The numbers that codes, scales and minimums stand for, [out, in] in float64."""
    packed, scale, minimum = rounded
    codes = np.stack([packed & 15, packed >> 4], axis=-1).reshape(*scale.shape, -1)
    weights = codes * scale[:, :, None].astype(np.float64) + minimum[:, :, None]
    return weights.reshape(len(packed), -1)


def rounded_rows(x):
    """The rows, each group rounded to 8 bits with its own scale, in float64."""
    groups = x.reshape(len(x), -1, GROUP)
    step = np.abs(groups).max(axis=2, keepdims=True) * np.float32(1 / 127)
    step = np.maximum(step, np.float32(1e-30))
    return (np.rint(groups / step) * step.astype(np.float64)).reshape(x.shape)


SHAPES = [(64, 48), (576, 40), (32, 1)]  # in, out


@pytest.mark.parametrize(("width", "out"), SHAPES)
@pytest.mark.parametrize("count", [1, 2, 17])
def test_a_product_is_that_of_the_rounded_rows(body, rng, width, out, count):
    x = (rng.normal(size=(count, width)) * 10.0 ** rng.integers(-3, 4, (count, 1))).astype("f4")
    x[count // 2] = 0
    fixed, sizes, weights = weights_of(rng, width, out)
    rows = rounded_rows(x)
    size = np.abs(rows) @ np.abs(weights.T)
    error = np.abs(body(INT4_MATMUL, x, fixed, **sizes) - rows @ weights.T)
    assert (error <= 2e-6 * size).all()


def test_an_outlier_costs_only_its_group_precision(body, rng):
    x = rng.normal(size=(3, 96)).astype(np.float32)
    fixed, sizes, _ = weights_of(rng, 96, 24)
    fixed["scale"][:, 0] = fixed["minimum"][:, 0] = 0  # the weights of the outlier's group
    before = body(INT4_MATMUL, x, fixed, **sizes)
    x[:, 3] = 1e6
    np.testing.assert_array_equal(body(INT4_MATMUL, x, fixed, **sizes), before)


def test_a_normed_product_is_that_of_the_normed_rows(body, rng):
    x = rng.normal(size=(5, 64)).astype(np.float32)
    fixed, sizes, weights = weights_of(rng, 64, 48)
    fixed["norm"] = rng.uniform(0.5, 2, 64).astype(np.float32)
    y = body(RMS_NORM_INT4_MATMUL, x, fixed, epsilon=1e-5, **sizes)
    normed = x / np.sqrt((x.astype(np.float64) ** 2).mean(axis=1, keepdims=True) + 1e-5)
    rows = rounded_rows((normed * fixed["norm"]).astype(np.float32))
    # A number halfway between two steps may be rounded to either.
    assert np.median(np.abs(y - rows @ weights.T)) <= 1e-4
    np.testing.assert_allclose(y, rows @ weights.T, rtol=0, atol=0.1)


# --- rounding ------------------------------------------------------------------------------------


def case(rng, width=96, out=40, rows=200):
    """Weights, and moments of inputs that depend on each other as a model's do."""
    mixing = rng.normal(size=(width // 4, width)) + 0.3 * rng.normal(size=(1, width))
    x = rng.normal(size=(rows, width // 4)) @ mixing + 0.3 * rng.normal(size=(rows, width))
    return rng.normal(size=(out, width)).astype("f4"), (x.T @ x).astype("f4")


def error_of(rounded, matrix, moments):
    """|X · differenceᵀ|² of the rounded weights [out, in], where moments = Xᵀ · X."""
    difference = restored(rounded) - matrix
    return float(np.sum((difference @ moments) * difference, dtype=np.float64))


@pytest.mark.parametrize("seed", range(5))
def test_error_feedback_costs_less_than_half_of_nearest(seed):
    matrix, moments = case(np.random.default_rng(seed))
    by_nearest = error_of(nearest(matrix), matrix, moments)
    with_feedback = error_of(with_error_feedback(matrix, moments), matrix, moments)
    assert with_feedback < 0.5 * by_nearest


@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_feedback_that_helps(seed, monkeypatch):
    """The same code with moments that are not correlated: nothing to hand on."""
    matrix, moments = case(np.random.default_rng(seed))
    with_feedback = error_of(with_error_feedback(matrix, moments), matrix, moments)
    alone = np.diag(np.diag(moments))
    without = error_of(with_error_feedback(matrix, alone), matrix, moments)
    assert with_feedback < 0.5 * without


def test_searched_grids_are_better_than_the_widest(rng, monkeypatch):
    matrix = rng.standard_t(3, size=(40, 96)).astype(np.float32)
    searched = error_of(nearest(matrix), matrix, np.eye(96))
    monkeypatch.setattr(gptq, "GRIDS", gptq.GRIDS[:1])
    widest = error_of(nearest(matrix), matrix, np.eye(96))
    assert searched < 0.95 * widest


def test_nearest_is_within_half_a_step_or_at_the_end_of_the_range(rng):
    matrix = rng.normal(size=(40, 96)).astype(np.float32)
    rounded = nearest(matrix)
    step, low = (np.repeat(x.astype(np.float64), GROUP, axis=1) for x in rounded[1:])
    values = restored(rounded)
    ends = np.isclose(values, low) | np.isclose(values, low + 15 * step)
    assert (ends | (np.abs(values - matrix) <= 0.501 * step)).all()


def grid(rng, kind, out=40, groups=3):
    """Weights as GGUF's blocks of this kind restore them."""
    codes = rng.integers(0, 16, (out, groups, GROUP))
    codes[:, :, 5], codes[:, :, 6] = 0, 15
    scale = rng.uniform(1e-3, 1e-1, (out, groups, 1)).astype(np.float16).astype(np.float64)
    scale *= rng.choice([-1, 1], scale.shape) if kind == "Q4_0" else 1
    low = scale * -8 if kind == "Q4_0" else rng.normal(size=scale.shape).astype(np.float16)
    return (codes * scale + low).astype(np.float32).reshape(out, -1)


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1"])
def test_weights_on_a_grid_stay_exact(rng, kind):
    matrix = grid(rng, kind)
    matrix[3, :GROUP] = 0  # a group of zeros
    found = on_grid(matrix, GROUP)
    assert found is not None
    assert found.is_exact
    np.testing.assert_array_equal(restored(found.rounded).astype(np.float32), matrix)


def test_weights_beside_a_grid_are_on_none(rng):
    matrix = grid(rng, "Q4_1")
    matrix[7, 40] = np.nextafter(matrix[7, 40], np.float32(np.inf))
    assert on_grid(matrix, GROUP) is None


@pytest.mark.parametrize("matrix", [np.zeros((3, 64), "f4"), np.full((3, 64), 1e-9, "f4")])
def test_weights_that_vanish_stay_finite(matrix):
    for rounded in (nearest(matrix), with_error_feedback(matrix, np.eye(64))):
        assert error_of(rounded, matrix, np.eye(64)) <= 1e-12


def test_inputs_that_are_always_zero_are_no_obstacle(rng):
    matrix, moments = case(rng)
    moments[:, 10] = moments[10] = 0
    assert np.isfinite(error_of(with_error_feedback(matrix, moments), matrix, moments))


# --- moments -------------------------------------------------------------------------------------


def moments_of(source, tmp_path, texts, **limit):
    checkpoint = open_checkpoint(resolve(str(source)))
    tmp_path.mkdir()
    return Moments(
        checkpoint.weights, fitted(checkpoint), tmp_path, texts, Device(1), **limit
    ), checkpoint


TEXTS = [[4, 7, 9, 3, 20], [5, 8, 6, 10, 4, 7, 11]]
QKV = "model.layers.0.self_attn."
FIRST = f"{QKV}q_proj.weight+{QKV}k_proj.weight+{QKV}v_proj.weight"


def test_the_moments_are_those_of_what_a_product_reads(tmp_path):
    source = write_llama(tmp_path / "checkpoint", **SIZES)
    moments, checkpoint = moments_of(source, tmp_path / "scratch", TEXTS)
    x = checkpoint.weights.read("model.embed_tokens.weight")[np.concatenate(TEXTS)].astype(
        np.float64
    )
    x /= np.sqrt((x**2).mean(axis=1, keepdims=True) + 1e-6)
    x *= checkpoint.weights.read("model.layers.0.input_layernorm.weight")
    np.testing.assert_allclose(moments.of(FIRST), x.T @ x, rtol=1e-3, atol=1e-3)


@one_in(2)
@pytest.mark.parametrize("write", [write_llama, write_t5])
def test_the_bytes_of_moments_asked_for_at_once_are_bounded(write, tmp_path, monkeypatch):
    source = write(tmp_path / "checkpoint", **SIZES)
    limit = 2 * 4 * 96 * 96
    asked = []
    session_of = ReadingModel.session

    def counted(self, graph, outputs):
        session = session_of(self, graph, outputs)
        if all(name.startswith("moments.") for name in outputs):
            shapes = [value.shape for value in session.get_outputs()]
            asked.append(sum(4 * height * width for height, width in shapes))
        return session

    monkeypatch.setattr(ReadingModel, "session", counted)
    few, _ = moments_of(source, tmp_path / "few", TEXTS, limit=limit)
    all_at_once, _ = moments_of(source, tmp_path / "all", TEXTS)
    products = list(few._graph_of)
    bounded = [few.of(product) for product in products]
    assert len(asked) > 3
    assert max(asked) <= limit
    for product, moments in zip(products, bounded, strict=True):
        np.testing.assert_allclose(moments, all_at_once.of(product), rtol=1e-4, atol=1e-3)
    assert max(asked) > limit


def test_a_batch_is_within_the_limit_or_one_product():
    sizes = {"a": 4, "b": 4, "c": 3, "d": 20, "e": 1}
    assert batches(sizes, 8) == [["a", "b"], ["c"], ["d"], ["e"]]


# --- texts ---------------------------------------------------------------------------------------


def test_the_built_in_texts_are_many_and_no_small_part_of_them_is_german_or_code():
    texts = calibration_texts(BUILT_IN)
    assert sum(len(text.encode()) for text in texts) >= 20_000
    assert len(texts) >= 20
    assert any("der" in text.split() for text in texts)
    assert any("def " in text for text in texts)


def test_texts_are_read_in_windows():
    pieces = windows(byte_tokenizer(272), ["a" * 1300, "bc"])
    assert [len(piece) for piece in pieces] == [512, 512, 276, 2]
    pieces = windows(byte_tokenizer(272), ["a" * 300], positions=128)
    assert [len(piece) for piece in pieces] == [128, 128, 44]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read: No such file"),
        (b"\xff\xfe", "not UTF-8 text: it begins with the mark of UTF-16"),
        (b" \n", "no text"),
    ],
)
def test_a_bad_calibration_file_is_one_line(content, message, tmp_path):
    file = tmp_path / "texts.txt"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UsageError, match=message):
        export_pair("nowhere", None, tmp_path / "pair", calibration=str(file))


# --- exports -------------------------------------------------------------------------------------


def export(source, tmp_path, draft=None, **options):
    draft = None if draft is None else str(draft)
    return export_pair(
        str(source), draft, tmp_path / "pair", target_formats=["int4"], threads=1, **options
    )


@one_in(2)
@pytest.mark.parametrize("write", [write_llama, write_t5])
@pytest.mark.parametrize("calibration", [BUILT_IN, NONE])
def test_text_with_a_draft_is_the_text_without(write, calibration, tmp_path):
    source = write(tmp_path / "checkpoint", **SIZES)
    draft = write_noisy(source, tmp_path / "draft", noise=0.05)
    manifest = export(source, tmp_path, draft, draft_formats=["int4"], calibration=calibration)
    assert manifest.target.variants["int4"].row_invariance.is_row_invariant
    pair = edgespec.load(tmp_path / "pair", threads=1)
    for prompt in TEXTS:
        plain = pair.generate(prompt, draft=False, max_new_tokens=24)
        assert pair.generate(prompt, gamma=4, max_new_tokens=24).token_ids == plain.token_ids
    assert not (tmp_path / "pair" / "calibration").exists()


def test_a_file_calibrates_otherwise_than_the_built_in_texts(tmp_path):
    source = write_llama(tmp_path / "checkpoint", **SIZES)
    (tmp_path / "texts").write_text("abc abc\n%%\nxyz")
    digests = []
    for calibration in (BUILT_IN, NONE, str(tmp_path / "texts")):
        manifest = export(source, tmp_path, calibration=calibration, measure=False, replace=True)
        digests.append(str(manifest.files["target/int4/weights.data"]))
    assert len(set(digests)) == 3


def test_a_width_that_groups_do_not_divide_stays_int8_and_the_export_says_so(tmp_path, caplog):
    source = write_llama(tmp_path / "checkpoint", **{**SIZES, "inner": 80})
    with caplog.at_level(logging.INFO, logger="edgespec"):
        export(source, tmp_path, measure=False)
    variant = read_manifest(tmp_path / "pair").target.variants["int4"]
    assert variant.blocks == {"decoder": FusedBlocks(3, 6)}
    said = "model.layers.*.mlp.down_proj.weight: 80 inputs are no multiple of 32"
    assert caplog.text.count(f"{said}; stored in int8 instead of int4") == 1
    assert "after SiluGate is Int8MatMul, not Int4MatMul" in caplog.text


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_weights_that_are_no_numbers_are_refused_by_name(number, tmp_path):
    source = write_llama(tmp_path / "checkpoint", **SIZES)
    tensors = load_file(source / "model.safetensors")
    tensors["model.layers.1.mlp.up_proj.weight"][3, 5] = number
    save_file(tensors, source / "model.safetensors")
    with pytest.raises(EdgespecError, match=r"model\.layers\.1\.mlp\.up_proj\.weight.*(NaN|inf)"):
        export(source, tmp_path, measure=False)


@pytest.mark.parametrize("kind", ["any weights", "weights on a grid"])
def test_a_matrix_is_rounded_in_blocks_of_rows_as_a_whole(monkeypatch, kind):
    matrix = np.random.default_rng(3).normal(size=(37, 64)).astype(np.float32)
    if kind == "weights on a grid":
        matrix = np.rint(matrix * 3).clip(-7, 8) / np.float32(4)
        matrix[:, ::32], matrix[:, 1::32] = -7 / 4, 2
    whole = rounded_of(on_grid(matrix, 32)), nearest(matrix)
    monkeypatch.setattr(gptq, "BLOCK", 5 * 64)
    blocks = rounded_of(on_grid(matrix, 32)), nearest(matrix)
    assert (whole[0] is None) == (blocks[0] is None) == (kind == "any weights")
    for expected, found in zip(whole, blocks, strict=True):
        for one, other in zip(expected or (), found or (), strict=True):
            np.testing.assert_array_equal(other, one)


def rounded_of(grid):
    return None if grid is None else grid.rounded


def test_one_row_off_the_grid_keeps_a_matrix_off_it(monkeypatch):
    monkeypatch.setattr(gptq, "BLOCK", 64)
    matrix = np.tile(np.arange(16, dtype=np.float32), (9, 4))
    assert on_grid(matrix, 32) is not None
    matrix[8, 3] += 0.5
    assert on_grid(matrix, 32) is None
