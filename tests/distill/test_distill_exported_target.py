"""Claim: a draft learns from its target as it will run: exported, in its number format."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

import edgespec
from depth import one_in
from distillation import PLAN, TEXTS, causal, greedily, seq2seq
from edgespec_distill.data.examples import Text
from edgespec_distill.data.text_generation import generate_texts, generate_with_distributions
from edgespec_distill.distill_draft import distill
from edgespec_distill.models.exported_target import as_exported
from edgespec_export.checkpoint.checkpoint import open_checkpoint
from edgespec_export.checkpoint.sources import resolve
from edgespec_export.export_pair import export_pair

PROMPTS = [[5, 6, 7], [5], [9, 8, 7, 6, 5] * 20, list(range(4, 80))]


def exported(folder, target, weights_format, layers, work):
    return as_exported(target, open_checkpoint(resolve(str(folder))), weights_format, layers, work)


@pytest.fixture(scope="module")
def llama_target(llama_folder):
    target = causal(llama_folder)
    target.feature_layers = (1, 2)
    return target


@pytest.fixture(scope="module")
def llama_export(llama_folder, llama_target, tmp_path_factory):
    work = tmp_path_factory.mktemp("work")
    return exported(llama_folder, llama_target, "fp32", (1, 2), work)


def test_in_float32_it_has_the_logits_and_features_of_the_checkpoint(llama_target, llama_export):
    torch.testing.assert_close(
        llama_export.logits(TEXTS), llama_target.logits(TEXTS), rtol=1e-3, atol=1e-3
    )
    pairs = zip(llama_export.features(TEXTS), llama_target.features(TEXTS), strict=True)
    for found, wanted in pairs:
        torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-3)


def test_texts_written_together_have_their_features_and_distributions(llama_target, llama_export):
    settings = greedily(12, [1])
    found = list(generate_with_distributions(llama_export, PROMPTS, settings))
    wanted = [e for e, _ in generate_with_distributions(llama_target, PROMPTS, settings)]
    assert [(e.prompt, e.output) for e, _ in found] == [(e.prompt, e.output) for e in wanted]
    for (example, own), other in zip(found, wanted, strict=True):
        (again,) = llama_export.features([example])
        assert torch.equal(own, again)  # rows have the same bits in any call
        torch.testing.assert_close(example.log_probs, other.log_probs, rtol=0.02, atol=0.02)


@one_in(2)
@pytest.mark.parametrize("weights_format", ["int8", "int4"])
def test_texts_are_those_of_the_exported_pair(llama_folder, llama_target, tmp_path, weights_format):
    target = exported(llama_folder, llama_target, weights_format, (), tmp_path)
    export_pair(
        str(llama_folder), None, tmp_path / "pair", target_formats=[weights_format], measure=False
    )
    pair = edgespec.load(tmp_path / "pair", threads=1)
    for text in generate_texts(target, PROMPTS, greedily(12, [])):
        alone = pair.generate(list(text.prompt), draft=False, max_new_tokens=12, ignore_eos=True)
        assert list(alone.token_ids) == text.output


def test_an_encoder_decoder_writes_and_scores_as_its_checkpoint(t5_folder, tmp_path):
    target = seq2seq(t5_folder)
    found = exported(t5_folder, target, "fp32", (), tmp_path)
    torch.testing.assert_close(found.logits(TEXTS), target.logits(TEXTS), rtol=1e-3, atol=1e-3)
    settings = greedily(12, [1])
    assert generate_texts(found, PROMPTS, settings) == generate_texts(target, PROMPTS, settings)


def test_features_of_an_encoder_decoder_are_those_of_the_tokens_that_its_decoder_reads(
    t5_folder, tmp_path
):
    target = exported(t5_folder, seq2seq(t5_folder), "fp32", (1, 2), tmp_path)
    prompts = [*PROMPTS, PROMPTS[0] * 100]  # a source longer than a call's rows
    ends = list(range(0, 200, 3))
    written = list(generate_with_distributions(target, prompts, greedily(12, ends)))
    assert len({len(example.output) for example, _ in written}) > 1
    for example, own in written:
        (again,) = target.features([example])
        assert len(again) == target.shown_positions(example) == len(example.output)
        assert torch.equal(own, again)


def test_texts_are_read_in_one_cache_that_grows(llama_export, monkeypatch):
    """Each cache takes megabytes of a large target, and stays for a while after its last use."""
    texts = [Text(prompt, [7, 8, 9]) for prompt in PROMPTS] * 2
    made, make_batch = [], llama_export._runtime.make_batch
    monkeypatch.setattr(
        llama_export._runtime, "make_batch", lambda *of: (made.append(of), make_batch(*of))[1]
    )
    wanted = [llama_export.features([text])[0] for text in reversed(texts)]
    for found, again in zip(llama_export.features(texts), reversed(wanted), strict=True):
        assert torch.equal(found, again)
    assert len(made) <= len(set(map(len, texts)))
    assert [capacity for _, capacity in made] == sorted({capacity for _, capacity in made})


def test_an_export_is_made_once(llama_folder, llama_target, tmp_path):
    exported(llama_folder, llama_target, "int8", (), tmp_path)
    (graph,) = tmp_path.rglob("decoder.onnx")
    made = graph.stat().st_mtime_ns
    exported(llama_folder, llama_target, "int8", (), tmp_path)
    assert graph.stat().st_mtime_ns == made


def test_a_draft_is_trained_on_the_texts_of_the_export(llama_folder, prompts, tmp_path, caplog):
    plan = dataclasses.replace(PLAN, target_format="int8", eagle=True, width=None, steps=40)
    with caplog.at_level("INFO", "edgespec"):
        found = distill(str(llama_folder), prompts, tmp_path / "draft", plan)
    assert "exporting the target in int8" in caplog.text
    assert found.after.sampled > found.before.sampled
    assert np.isfinite(found.after.sampled)


def test_a_prompt_without_room_for_its_text_is_named(llama_export):
    words = "a prompt has 120 tokens, and 12 are to follow; the target has 128 positions: leave it"
    with pytest.raises(edgespec.errors.UsageError, match=words):
        llama_export.begin([[5], [5] * 120], 12)


def test_an_unknown_format_is_refused(llama_folder, prompts, tmp_path):
    plan = dataclasses.replace(PLAN, target_format="int3")
    with pytest.raises(edgespec.errors.UsageError, match="target_format is 'int3'; give one of: "):
        distill(str(llama_folder), prompts, tmp_path / "draft", plan)
