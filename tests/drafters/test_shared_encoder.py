"""Claim: a T5 draft that reads its target's encoder computes the same numbers on the device as in
training, whatever the target's number format, and its pair has the target's own text."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForSeq2SeqLM

import edgespec
from checkpoints import write_llama
from depth import one_in
from edgespec.artifact.manifest import read_manifest
from edgespec.errors import EdgespecError, UsageError
from edgespec_distill.data.draft_vocabulary import full_vocabulary
from edgespec_distill.data.examples import Text
from edgespec_distill.models.reading.shared_encoder_module import SharedEncoder
from edgespec_distill.models.reading.shared_encoder_student import SharedEncoderStudent
from edgespec_distill.models.seq2seq import Seq2Seq
from edgespec_distill.plan import Plan, check_plan
from edgespec_export.export_pair import export_pair
from edgespec_runtimes.ort.reading.ort_shared_encoder import OrtSharedEncoder
from shared_encoder_checkpoints import SIZE, write_draft, write_target

TEXT = Text((40, 41, 42, 50, 60, 61, 1), (7, 9, 80, 3, 66, 12))


def learner_of(target: Path, draft: SharedEncoder) -> SharedEncoderStudent:
    model = AutoModelForSeq2SeqLM.from_pretrained(target, dtype=torch.float32).eval()
    seq2seq = Seq2Seq(model, full_vocabulary(SIZE), 0)
    return SharedEncoderStudent(draft, full_vocabulary(SIZE), seq2seq)


@pytest.fixture(scope="module", params=[(16, 1, False), (None, 2, True)], ids=str)
def case(request, tmp_path_factory) -> tuple[Path, SharedEncoder, Path]:
    """A target, a draft of it and their exported pair."""
    width, layers, gated = request.param
    folder = tmp_path_factory.mktemp("shared")
    target = write_target(folder / "target", gated=gated)
    draft = write_draft(target, folder / "draft", width=width, layers=layers)
    formats = ("fp32", "int8")
    export_pair(
        str(target),
        str(folder / "draft"),
        folder / "pair",
        target_formats=formats,
        draft_formats=formats,
    )
    return target, draft, folder / "pair"


def test_the_targets_encoder_shows_its_states(case):
    target, _, folder = case
    model = AutoModelForSeq2SeqLM.from_pretrained(target, dtype=torch.float32).eval()
    states: list[torch.Tensor] = []
    model.encoder.final_layer_norm.register_forward_pre_hook(lambda _, args: states.append(args[0]))
    with torch.no_grad():
        model.encoder(input_ids=torch.tensor([TEXT.prompt]))
    pair = edgespec.load(folder, threads=1)
    pair.target.prefill(TEXT.prompt)
    np.testing.assert_allclose(pair.target.encoder_states.numpy(), states[0][0], atol=1e-4)


def test_the_device_computes_the_logits_of_the_training(case):
    target, draft, folder = case
    expected = learner_of(target, draft).logits([TEXT]).detach().numpy()
    pair = edgespec.load(folder, threads=1)
    pair.target.prefill(TEXT.prompt)
    found = pair.draft.score([pair.draft.prefill(TEXT.prompt), *TEXT.output[:-1]])
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())


@one_in(2)
def test_int8_is_near_float32(case):
    *_, folder = case
    logits = []
    for format_ in ("fp32", "int8"):
        pair = edgespec.load(folder, threads=1, draft_format=format_)
        pair.target.prefill(TEXT.prompt)
        rows = pair.draft.score([pair.draft.prefill(TEXT.prompt), *TEXT.output[:-1]])
        logits.append(np.array(rows))
    error = np.abs(logits[0] - logits[1]).mean() / np.abs(logits[0] - logits[0].mean()).mean()
    assert 0 < error < 0.1


@one_in(2)
@pytest.mark.parametrize("format_", ["fp32", "int8"])
@pytest.mark.parametrize("options", [{"temperature": 0}, {"temperature": 1, "seed": 3}], ids=str)
def test_a_pair_has_the_targets_own_text(case, format_, options):
    pair = edgespec.load(case[2], threads=1, target_format=format_)
    plain, drafted = (
        pair.generate("abc äöü", max_new_tokens=40, draft=draft, gamma=gamma, **options)
        for draft, gamma in ((False, 0), ("model", 3))
    )
    assert drafted.token_ids == plain.token_ids
    assert drafted.stats.drafted > 0


def test_texts_follow_each_other(case):
    """The states of one source are not used for the next."""
    texts = []
    for prompts in (["abc", "xyz and more"], ["xyz and more"]):
        pair = edgespec.load(case[2], threads=1)
        for prompt in prompts:
            found = pair.generate(prompt, max_new_tokens=20, temperature=0, draft="model", gamma=3)
        texts.append((found.token_ids, found.stats.accepted))
    assert texts[0] == texts[1]


def test_only_the_target_of_such_a_draft_shows_states(case, tmp_path):
    exported = read_manifest(case[2])
    assert exported.draft is not None
    assert exported.target.features == exported.draft.features > 0
    target = write_target(tmp_path / "target")
    without = export_pair(str(target), None, tmp_path / "pair", measure=False)
    assert without.target.features == 0
    decoder = edgespec.load(tmp_path / "pair", threads=1, allow_inexact=True).target
    decoder.prefill(TEXT.prompt)
    assert decoder.encoder_states is None


def test_a_draft_whose_target_has_read_another_source_says_so(case):
    pair = edgespec.load(case[2], threads=1)
    assert isinstance(pair.draft, OrtSharedEncoder)
    with pytest.raises(EdgespecError, match="has read 0"):
        pair.draft.prefill(TEXT.prompt)
    pair.target.prefill(TEXT.prompt[1:])
    with pytest.raises(EdgespecError, match=f"given {len(TEXT.prompt)} source tokens"):
        pair.draft.prefill(TEXT.prompt)


def test_a_draft_for_another_target_is_refused(tmp_path):
    target = write_target(tmp_path / "target")
    write_draft(target, tmp_path / "draft", width=16)
    other = write_target(tmp_path / "other", width=48)
    with pytest.raises(EdgespecError, match="reads the encoder of a T5 of width 32"):
        export_pair(str(other), str(tmp_path / "draft"), tmp_path / "pair")
    with pytest.raises(EdgespecError, match="reads its target's encoder, so it cannot be a target"):
        export_pair(str(tmp_path / "draft"), None, tmp_path / "pair")


def test_int4_is_rounded_to_nearest_as_no_text_runs_the_draft_alone(tmp_path, caplog):
    target = write_target(tmp_path / "target")
    write_draft(target, tmp_path / "draft", width=16)
    formats = {"draft_formats": ["int4"], "measure": False}
    with caplog.at_level("INFO", logger="edgespec"):
        export_pair(str(target), str(tmp_path / "draft"), tmp_path / "pair", **formats)
    assert "int4 weights rounded to nearest, as it reads its target's encoder" in caplog.text
    pair = edgespec.load(tmp_path / "pair", threads=1)
    assert pair.generate("abc", max_new_tokens=4).token_ids


def test_a_config_with_an_unknown_key_is_refused(tmp_path):
    target = write_target(tmp_path / "target")
    write_draft(target, tmp_path / "draft", width=16)
    file = tmp_path / "draft" / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"surprise": 1}))
    with pytest.raises(EdgespecError, match="surprise"):
        export_pair(str(target), str(tmp_path / "draft"), tmp_path / "pair")


@pytest.mark.parametrize(
    "other", [{"eagle": True}, {"block": 3}, {"encoder_layers": 2}, {"on_policy": True}], ids=str
)
def test_a_plan_that_contradicts_itself_is_refused(other):
    with pytest.raises(UsageError, match="share_encoder does not go with"):
        check_plan(Plan(layers=1, share_encoder=True, steps=1, **other))


def test_a_target_without_an_encoder_is_refused(tmp_path):
    from edgespec_distill.distill_draft import distill

    target = write_llama(tmp_path / "target")
    (tmp_path / "prompts.txt").write_text("w3 w4\n" * 5)
    plan = Plan(layers=1, share_encoder=True, steps=1)
    with pytest.raises(UsageError, match="has no encoder; leave share_encoder out"):
        distill(str(target), tmp_path / "prompts.txt", tmp_path / "draft", plan)


def test_training_makes_such_a_draft_agree_with_its_target(tmp_path):
    from edgespec_distill.distill_draft import distill

    target = write_target(tmp_path / "target")
    lines = [f"{a}{b} {b}{a}" for a in "abcdefghij" for b in "klmnopqrst"]
    (tmp_path / "prompts.txt").write_text("\n".join(lines))
    plan = Plan(layers=1, share_encoder=True, width=16, steps=60, max_new_tokens=12, outputs=1)
    result = distill(str(target), tmp_path / "prompts.txt", tmp_path / "draft", plan)
    assert result.after.sampled > result.before.sampled
    manifest = export_pair(str(target), str(tmp_path / "draft"), tmp_path / "pair", measure=False)
    assert manifest.draft is not None
    assert manifest.draft.shares_encoder
    card = (tmp_path / "draft" / "README.md").read_text()
    assert "reads its target's encoder" in card
