"""Claim: a provider that computes another model is refused with the number, before it is called
exact."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import edgespec
from edgespec.artifact.manifest import read_manifest
from edgespec.artifact.row_invariance import Distance
from edgespec.device.device import CPU, Device
from edgespec.errors import EdgespecError
from edgespec.pair.opening import provider_check
from edgespec.pair.opening.provider_check import refuse_if_far
from edgespec.pair.opening.runtime import open_model
from logged import logged_lines

THERE = Device(1, "elsewhere")


@pytest.fixture
def computed(tiny_folder, monkeypatch):
    """Says what a device makes of the processor's logits."""

    def computed(change, host=None):
        def both(folder, manifest, variant, device):
            there, here = (
                open_model(folder, manifest.target, variant, device=Device(1), min_rows=2)
                for _ in range(2)
            )
            score = there.score
            monkeypatch.setattr(there, "score", lambda tokens: change(score(tokens)))
            return [there, here]

        monkeypatch.setattr(provider_check, "_both", both)
        manifest = dataclasses.replace(read_manifest(tiny_folder), host=host)
        refuse_if_far(tiny_folder, manifest, "fp32", THERE)

    return computed


def rounded(logits):
    return logits.astype(np.float16).astype(np.float32)


@pytest.mark.parametrize("change", [lambda logits: logits * np.float32(1 + 1e-6), rounded])
def test_rounding_is_accepted_and_said(computed, change):
    with logged_lines() as said:
        computed(change)
    assert said[-1].startswith("target fp32 on elsewhere: logits within ")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda logits: logits * 1.1, "logits differ by 10.0% of the largest"),
        (lambda logits: np.roll(logits, 1, axis=1), "another model than on the processor"),
        (lambda logits: logits + 0 * logits / (logits > logits.min()), "not finite"),
    ],
    ids=["scaled", "moved", "nan"],
)
def test_what_rounding_does_not_explain_is_refused(computed, change, words):
    with np.errstate(all="ignore"), pytest.raises(EdgespecError, match=words) as error:
        computed(change)
    assert len(str(error.value).splitlines()) == 1
    assert "take another" in str(error.value)


@pytest.mark.parametrize(
    ("number_format", "refused"), [("fp16", True), ("w4a16", True), ("w8a8", False)]
)
def test_activations_of_8_bits_may_differ_by_steps(
    computed, tiny_folder, monkeypatch, number_format, refused
):
    """A tiny model in w8a8 was 11 % off on Qualcomm's NPU, by steps of its ranges."""
    variant = read_manifest(tiny_folder).target.variants["fp32"]
    limit = provider_check._limit_of(dataclasses.replace(variant, weights_format=number_format))
    monkeypatch.setattr(provider_check, "_limit_of", lambda _: limit)

    def stepped(logits):
        steps = np.zeros_like(logits)
        steps[:, -1] = 0.15 * np.abs(logits).max()
        return logits - steps

    if not refused:
        computed(stepped)
        return
    with pytest.raises(EdgespecError, match=r"of the largest.*rounding explains 10%"):
        computed(stepped)


@pytest.mark.parametrize(("own", "most"), [(None, 0.05), (0.01, 0.05), (0.15, 0.3)])
def test_they_may_be_twice_as_far_as_their_format_is_from_float32(tiny_folder, own, most):
    """SmolLM2's first layers in w8a8 were 0.17 nats off, and 0.15 from float32."""
    variant = read_manifest(tiny_folder).target.variants["fp32"]
    known = own and Distance("fp32", own, 1.0, 2.0, 2.0, 9)
    variant = dataclasses.replace(variant, weights_format="w8a8", distance=known)
    assert provider_check._limit_of(variant) == (0.3, pytest.approx(most))
    other = dataclasses.replace(variant, weights_format="w8a16")
    assert provider_check._limit_of(other) == provider_check.NARROW


@pytest.mark.parametrize(("host", "told"), [(None, True), ("gpu", False), ("npu", False)])
def test_only_an_export_for_any_machine_is_told_to_be_exported_for_a_gpu(computed, host, told):
    with pytest.raises(EdgespecError, match="rounding explains") as error:
        computed(lambda logits: logits * 1.1, host)
    assert ("--for gpu" in str(error.value)) == told


def test_it_is_compared_before_row_invariance_is_measured(own_pair, monkeypatch):
    """So row invariance alone proves nothing, and no verdict is kept."""

    def far(folder, manifest, variant, device):
        raise EdgespecError("it is far")

    from edgespec.pair.opening import invariance_cache

    monkeypatch.setattr(invariance_cache, "refuse_if_far", far)
    (own_pair / invariance_cache.INVARIANCE_FILE).unlink(missing_ok=True)
    manifest = read_manifest(own_pair)
    with pytest.raises(EdgespecError, match="it is far"):
        invariance_cache.measured_invariance(own_pair, manifest, "fp32", Device(1))
    assert not (own_pair / invariance_cache.INVARIANCE_FILE).exists()


def test_the_processor_is_not_compared_with_itself(tiny_folder, monkeypatch):
    monkeypatch.setattr(provider_check, "_both", None)
    refuse_if_far(tiny_folder, read_manifest(tiny_folder), "fp32", Device(1, CPU))


def test_logits_that_are_not_finite_are_an_error_and_no_text(tiny_folder, monkeypatch):
    """As where float16 overflows."""
    pair = edgespec.load(tiny_folder, threads=1)
    for wrong in (np.nan, np.inf):
        monkeypatch.setattr(
            type(pair.target),
            "_logits",
            broken(type(pair.target)._logits, wrong),
        )
        for options in ({}, {"temperature": 1.0, "seed": 1}):
            with pytest.raises(EdgespecError, match="as its largest logit"):
                pair.generate([5, 6, 7], draft=False, max_new_tokens=3, **options)


def broken(logits_of, wrong):
    def logits(self, *arguments, **options):
        call = logits_of(self, *arguments, **options)
        call.logits[:] = wrong
        return call

    return logits
