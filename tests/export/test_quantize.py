"""Claim: a number format changes the numbers by what its bits allow and nothing else.

Reconstructed matrices are within half a step of the originals; every format exports, is
row-invariant as a target, keeps greedy text with any draft format, and stays near float32.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import edgespec
from checkpoints import byte_tokenizer, write_llama, write_noisy, write_t5
from depth import DEEP, by_turns, deep, one_in
from edgespec.artifact.manifest import read_manifest
from edgespec.device.device import Device
from edgespec.errors import EdgespecError, UsageError
from edgespec.pair.opening.runtime import open_model
from edgespec_export.export_pair import export_pair
from edgespec_export.quantization.formats import FORMATS
from edgespec_export.quantization.rounding import per_block, per_channel
from shipped_models import MODELS

matrices = arrays.arrays(
    np.float32,
    st.tuples(st.integers(1, 5), st.integers(1, 70)),
    elements=st.floats(-100, 100, width=32),
)


@given(matrices)
def test_per_channel_is_within_half_a_step(matrix):
    quantized, scale = per_channel(matrix)
    assert quantized.shape == matrix.shape[::-1]
    assert np.abs(quantized).max() <= 127
    error = np.abs(quantized.T * scale[:, None] - matrix)
    assert (error <= scale[:, None] * 0.501).all()


@given(matrices, st.sampled_from([4, 8]))
def test_per_block_is_within_a_step(matrix, bits):
    """Half a step for the value, half for the zero point."""
    out, width = matrix.shape
    blocks, scale, zero = per_block(matrix, bits, 32)
    count = -(-width // 32)
    values = unpacked(blocks, bits).reshape(out, count, 32).astype(np.float32)
    zeros = unpacked(zero.reshape(out, -1), bits)[:, :count].astype(np.float32)
    step = scale.reshape(out, count, 1)
    restored = ((values - zeros[:, :, None]) * step).reshape(out, -1)[:, :width]
    steps = np.repeat(step[:, :, 0], 32, axis=1)[:, :width]
    assert (np.abs(restored - matrix) <= steps * 1.01).all()


def unpacked(values, bits):
    if bits == 8:
        return values
    return np.stack([values & 15, values >> 4], axis=-1).reshape(*values.shape[:-1], -1)


DRAFT_FORMATS = ["int8", "int4", "int4-weights"]
FAMILIES = {
    "t5": lambda folder: write_t5(
        folder,
        vocab_size=272,
        tokenizer=byte_tokenizer(272, append_eos=True),
        head_size=16,
        width=64,
        gated=True,
    ),
    "llama": lambda folder: write_llama(
        folder, vocab_size=272, tokenizer=byte_tokenizer(272), head_size=16, kv_heads=1, width=64
    ),
    "qwen2, with biases": lambda folder: write_llama(
        folder,
        vocab_size=272,
        tokenizer=byte_tokenizer(272),
        head_size=16,
        width=64,
        model_type="qwen2",
    ),
}


# A Qwen2 has what a Llama has, and biases.
@pytest.fixture(
    scope="module",
    params=[pytest.param(n, marks=deep) if n == "llama" else n for n in FAMILIES],
)
def folder(request, made_once):
    def make(folder):
        target = FAMILIES[request.param](folder / "target")
        draft = write_noisy(target, folder / "draft", noise=0.05)
        formats = list(FORMATS)
        export_pair(
            str(target),
            str(draft),
            folder / "pair",
            target_formats=formats,
            draft_formats=formats if DEEP else DRAFT_FORMATS,
            threads=1,
        )

    return made_once(f"formats-{request.param}", make) / "pair"


@pytest.mark.parametrize("format_", FORMATS)
def test_a_target_in_any_format_is_row_invariant(folder, format_):
    assert read_manifest(folder).target.variants[format_].row_invariance.is_row_invariant


# By default one draft format with each target format; with EDGESPEC_DEEP=1 all with all.
WAYS = [
    (target, draft)
    for turn, target in enumerate(FORMATS)
    for draft in by_turns(DRAFT_FORMATS, turn, len(DRAFT_FORMATS))
]


@one_in(2)
@pytest.mark.parametrize(("target_format", "draft_format"), WAYS)
def test_greedy_text_is_the_quantized_targets_own(folder, target_format, draft_format):
    pair = edgespec.load(folder, threads=1, target_format=target_format, draft_format=draft_format)
    accepted = 0
    turn = WAYS.index((target_format, draft_format))
    for seed in by_turns(range(12), turn, 6):
        prompt = [int(t) for t in np.random.default_rng(seed).integers(3, 272, size=6)]
        expected = pair.generate(prompt, draft=False, max_new_tokens=16)
        for gamma in (1, 4, 8):
            drafted = pair.generate(prompt, gamma=gamma, max_new_tokens=16)
            assert drafted.token_ids == expected.token_ids
            accepted += drafted.stats.accepted
    assert accepted > 0


@one_in(2, turn=1)
@pytest.mark.parametrize("format_", FORMATS)
def test_a_format_computes_every_part_of_the_model(folder, format_):
    """A part that was left out, a bias say, changes random logits by half of their spread."""
    exported = read_manifest(folder).target
    logits = {}
    for name in ("fp32", format_):
        model = open_model(folder, exported, name, device=Device(1), min_rows=2)
        logits[name] = model.score([model.prefill([4, 7, 9, 3]), 5, 8, 6, 10, 4, 7]).copy()
    difference = np.abs(logits["fp32"] - logits[format_]).mean() / logits["fp32"].std()
    assert difference <= (0.4 if format_.startswith("int4") else 0.1)


# Mean |difference| of a logit from float32, as a share of the logits' spread, on a real model.
MAX_DIFFERENCE = {
    "fp16": 0.001,
    "bf16": 0.01,
    "bf16-products": 0.01,
    "int8": 0.05,
    "int4": 0.2,
    "int4-int8": 0.2,
    "int8-weights": 0.05,
    "int4-weights": 0.2,
}


@pytest.fixture(scope="module")
def real(made_once):
    def make(folder):
        formats = ["fp32", *MAX_DIFFERENCE]
        source, options = str(MODELS / "en-de-draft"), {"measure": False, "threads": 1}
        export_pair(source, None, folder, target_formats=formats, **options)

    return made_once("formats-of-en-de-draft", make)


@pytest.mark.parametrize("format_", MAX_DIFFERENCE)
def test_a_format_stays_near_float32_and_is_not_float32(real, format_):
    exported = read_manifest(real).target
    prompt = edgespec.load(real, threads=1).encode("This package contains the documentation.")
    logits = {}
    for name in ("fp32", format_):
        model = open_model(real, exported, name, device=Device(1), min_rows=2)
        logits[name] = model.score([model.prefill(prompt), *prompt]).copy()
    difference = np.abs(logits["fp32"] - logits[format_]).mean() / logits["fp32"].std()
    assert difference <= MAX_DIFFERENCE[format_]
    assert (difference < 1e-6) == (format_ == "fp16")  # the checkpoint itself is fp16


def test_16_bits_on_disk_are_half_the_size(folder):
    manifest = read_manifest(folder)
    assert manifest.bytes("target", "fp16") < 0.75 * manifest.bytes("target", "fp32")


def test_numbers_beyond_fp16_are_refused_by_name(tmp_path):
    from checkpoints import change_tensors

    source = write_llama(tmp_path / "checkpoint")
    change_tensors(source, model_layers_1_mlp_up_proj_weight=1e6)
    with pytest.raises(EdgespecError, match=r"layers\.1\.mlp\.up_proj\.weight' has numbers beyond"):
        export_pair(str(source), None, tmp_path / "pair", target_formats=["fp16"])
    export_pair(str(source), None, tmp_path / "pair", target_formats=["bf16"])


def test_an_unknown_format_is_refused(tmp_path):
    source = write_llama(tmp_path / "checkpoint")
    with pytest.raises(
        UsageError,
        match=r"no target format 'int3'; there is: fp32, fp16, bf16, bf16-products, int8",
    ):
        export_pair(str(source), None, tmp_path / "pair", target_formats=["int3"])
