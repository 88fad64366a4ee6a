"""Claim: a target's states are stored as far as a bound allows and else computed again, with the
same bits: the draft is the same, and a run that stopped goes on, whichever were stored."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from distillation import PLAN, causal, greedily, interrupted, seq2seq
from edgespec_distill.data import target_outputs as outputs_module
from edgespec_distill.data.examples import Text
from edgespec_distill.data.features import Features
from edgespec_distill.data.text_generation import generate_with_distributions
from edgespec_distill.distill_draft import distill
from edgespec_distill.models.exported_target import as_exported
from edgespec_distill.training.training_loop import Training
from edgespec_export.checkpoint.checkpoint import open_checkpoint
from edgespec_export.checkpoint.sources import resolve

PROMPTS = [[5, 6, 7], [5], [9, 8, 7, 6, 5] * 20, list(range(4, 80))]
LAYERS = (1, 2)
EAGLE = dataclasses.replace(PLAN, eagle=True, width=None, vocabulary=90, steps=6, rate=1e-3)
GIGABYTE = 1e9


@pytest.fixture(params=["original", "fp32", "int8", "t5, int8"])
def target(request, llama_folder, t5_folder, tmp_path):
    """Run by torch or by its export; in float32 here, as features are."""
    if request.param.startswith("t5"):
        checkpoint = open_checkpoint(resolve(str(t5_folder)))
        return as_exported(seq2seq(t5_folder), checkpoint, "int8", LAYERS, tmp_path)
    found = causal(llama_folder)
    found.feature_layers = LAYERS
    if request.param == "original":
        return found
    checkpoint = open_checkpoint(resolve(str(llama_folder)))
    return as_exported(found, checkpoint, request.param, LAYERS, tmp_path)


def kept(features, pairs, file):
    texts = list(features.keeping(pairs, file))
    features.add(texts, file)
    return texts


def test_features_have_the_same_bits_in_a_file_and_computed_again(target, tmp_path):
    """Those of the first two of four texts have room."""
    written = list(generate_with_distributions(target, PROMPTS, greedily(12, [1])))
    again = [target.features([example])[0] for example, _ in written]
    room = again[0].nbytes + again[1].nbytes
    features = Features(target, room)
    texts = kept(features, written, tmp_path / "outputs.pt")
    assert (tmp_path / "outputs.float32").stat().st_size == room
    for found, wanted in zip(features.of(texts), again, strict=True):
        assert torch.equal(found, wanted)


def test_texts_whose_features_are_stored_are_not_read_again(target, tmp_path, monkeypatch):
    written = list(generate_with_distributions(target, PROMPTS, greedily(12, [1])))
    features, file = Features(target, GIGABYTE), tmp_path / "outputs.pt"
    texts = kept(features, written, file)
    fresh = Features(target, 0)  # a run that goes on, with less disk
    monkeypatch.setattr(target, "features", interrupted)
    fresh.add(texts, file)
    for found, wanted in zip(fresh.of(texts), features.of(texts), strict=True):
        assert torch.equal(found, wanted)


def test_files_of_all_texts_keep_to_the_bound_together(target, tmp_path):
    texts = [Text(prompt, [7, 8]) for prompt in PROMPTS]
    bound = 3 * target.features(texts[:1])[0].nbytes
    features = Features(target, bound)
    for number in range(3):
        features.add(texts, tmp_path / f"answers-{number}.pt")
        stored = sum(file.stat().st_size for file in tmp_path.glob("*.float32"))
        assert stored <= bound
    assert stored == features.of(texts[:1])[0].nbytes * 3


def test_reading_texts_yields_each_with_its_own_features(target):
    texts = [Text([5 + n], [6, 7, n + 1]) for n in range(40)]
    found = list(Features(target, 0).read(texts))
    assert [text for text, _ in found] == texts
    for text, own in found:
        assert torch.equal(own, target.features([text])[0])


@pytest.mark.parametrize("target_format", ["original", "int8"])
@pytest.mark.parametrize("kind", [{}, {"eagle": False, "block": 3, "loss": "mixed"}])
def test_the_draft_is_the_same_whether_states_are_stored_or_computed_again(
    target_format, kind, llama_folder, prompts, tmp_path
):
    plan = dataclasses.replace(EAGLE, target_format=target_format, **kind)
    found = []
    for disk in (1.0, 200e-6, 0.0):  # all, some, none
        folder = tmp_path / f"draft-{disk}"
        distill(str(llama_folder), prompts, folder, dataclasses.replace(plan, disk=disk))
        found.append((folder / "model.safetensors").read_bytes())
    assert found[0] == found[1] == found[2]


def test_a_run_goes_on_with_another_bound(llama_folder, prompts, tmp_path, monkeypatch):
    """States that the first run stored are read; the second stores no more."""
    monkeypatch.setattr(outputs_module, "BLOCK", 64)
    whole, folder = tmp_path / "whole", tmp_path / "draft"
    distill(str(llama_folder), prompts, whole, EAGLE)
    with monkeypatch.context() as patch:
        patch.setattr(Training, "_step", interrupted)
        with pytest.raises(KeyboardInterrupt):
            distill(str(llama_folder), prompts, folder, dataclasses.replace(EAGLE, disk=200e-6))
    distill(str(llama_folder), prompts, folder, dataclasses.replace(EAGLE, disk=0.0))
    assert (folder / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
