"""Claim: a model with kernels is the model without them, up to rounding, and row-invariant; kernels
that cannot run are named and not used.
"""

from __future__ import annotations

import numpy as np
import pytest

from attention_calls import CACHE_FORMATS
from checkpoints import byte_tokenizer, write_llama
from command import run
from edgespec.artifact.manifest import read_manifest
from edgespec.device.device import Device
from edgespec.device.kernels import SWITCH, _installed, installed_kernels
from edgespec.pair.opening.runtime import machine_of, open_model
from edgespec_export.export_pair import export_pair
from edgespec_runtimes.ort import prefill

pytestmark = pytest.mark.skipif(installed_kernels() is None, reason="there are no kernels here")


def test_row_invariance_is_measured_again_with_other_kernels(monkeypatch):
    with_kernels = machine_of(Device(1)).digest
    monkeypatch.setenv(SWITCH, "0")
    assert machine_of(Device(1)).digest != with_kernels
    assert installed_kernels() is None


def test_a_library_for_another_system_is_not_used(monkeypatch):
    import edgespec_kernels

    def fail():
        raise OSError("wrong ELF class")

    monkeypatch.setattr(edgespec_kernels, "target", fail)
    assert _installed.__wrapped__(None) is None


def test_kernels_that_are_too_old_are_not_used(monkeypatch):
    import edgespec_kernels

    monkeypatch.setattr(edgespec_kernels, "__version__", "0.4.9")
    assert _installed.__wrapped__(None) is None


def test_providers_names_them(monkeypatch):
    name = installed_kernels().name
    assert name in run("providers").output
    monkeypatch.setenv(SWITCH, "0")
    assert name not in run("providers").output


def test_plain_steps_of_an_int8_target_need_no_padding(own_checkpoints, tmp_path):
    """ONNX Runtime's own attention has another kernel for one position, and so a step takes two."""
    target, draft = map(str, own_checkpoints)
    export_pair(target, draft, tmp_path / "pair", target_formats=["int8"], threads=1)
    found = read_manifest(tmp_path / "pair").target.variants["int8"].row_invariance
    assert found.is_row_invariant
    assert found.min_rows == 1


@pytest.mark.parametrize("format_", ["fp32", "int8"])
def test_a_model_with_kernels_differs_from_one_without_by_rounding(
    own_checkpoints, tmp_path, monkeypatch, format_
):
    target, draft = own_checkpoints
    export_pair(str(target), str(draft), tmp_path / "pair", target_formats=[format_], measure=False)
    tokens = list(b"As near as rounding allows.")
    logits = []
    for switch in "10":
        monkeypatch.setenv(SWITCH, switch)
        manifest = read_manifest(tmp_path / "pair")
        model = open_model(tmp_path / "pair", manifest.target, format_, device=Device(1))
        logits.append(model.score(tokens))
    ours, theirs = logits
    near = 1e-4 if format_ == "fp32" else 0.05
    assert np.abs(ours - theirs).max() < near * np.abs(theirs).max()


@pytest.mark.parametrize("cache", CACHE_FORMATS)
def test_a_prompt_of_a_fused_model_has_the_same_bits_in_pieces_of_any_size(
    tmp_path, monkeypatch, cache
):
    """Without kernels the size of the pieces is part of the contract (prefill.py)."""
    sizes = {"vocab_size": 272, "head_size": 16, "width": 64, "inner": 128}
    sizes |= {"tokenizer": byte_tokenizer(272), "max_position_embeddings": 1024}
    checkpoint = write_llama(tmp_path / "c", **sizes)
    export_pair(
        str(checkpoint),
        None,
        tmp_path / "pair",
        target_formats=["int8"],
        cache_formats=[cache],
        measure=False,
    )
    exported = read_manifest(tmp_path / "pair").target
    (name,) = exported.variants
    model = open_model(tmp_path / "pair", exported, name, capacity=700, device=Device(2))
    prompt = [int(token) for token in np.random.default_rng(0).integers(272, size=600)]
    logits = []
    for rows in (256, 100, 33, 600):
        monkeypatch.setattr(prefill, "MAX_PREFILL_ROWS", rows)
        last = model.prefill(prompt)
        logits.append(model.score([last, 7, 8]))
    for other in logits[1:]:
        np.testing.assert_array_equal(other, logits[0])


def test_kernels_that_are_too_old_are_named_and_not_used(monkeypatch, caplog):
    monkeypatch.setattr("edgespec_kernels.__version__", "0.1.0")
    _installed.cache_clear()
    try:
        assert installed_kernels() is None
        assert "edgespec-kernels 0.1.0 is older than" in caplog.text
    finally:
        _installed.cache_clear()
