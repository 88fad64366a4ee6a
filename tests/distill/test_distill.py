"""Claim: a distilled draft agrees more with its target and makes an exact pair."""

from __future__ import annotations

import dataclasses
import json

import pytest
from click.testing import CliRunner

import edgespec
from depth import deep
from distillation import PLAN
from edgespec.cli.main import main
from edgespec_distill.distill_draft import distill
from edgespec_export.export_pair import export_pair


@pytest.mark.parametrize(
    ("kind", "on_policy"),
    [
        ("llama", True),
        pytest.param("t5", False, marks=deep),
        pytest.param("t5", True, marks=deep),
        pytest.param("llama", False, marks=deep),
    ],
)
def test_a_distilled_draft_agrees_more_and_makes_an_exact_pair(
    kind, on_policy, t5_folder, llama_folder, prompts, tmp_path
):
    target = t5_folder if kind == "t5" else llama_folder
    plan = dataclasses.replace(PLAN, on_policy=on_policy)
    found = distill(str(target), prompts, tmp_path / "draft", plan)
    assert found.after.sampled > found.before.sampled + 0.03
    export_pair(str(target), str(tmp_path / "draft"), tmp_path / "pair", threads=1)
    pair = edgespec.load(tmp_path / "pair", threads=1)
    for prompt in ("green stone", "under seven"):
        drafted = pair.generate(prompt, gamma=3, draft="model", max_new_tokens=20)
        plain = pair.generate(prompt, draft=False, max_new_tokens=20)
        assert drafted.token_ids == plain.token_ids
    assert (found.known is None) == on_policy
    record = json.loads((tmp_path / "draft" / "distillation.json").read_text())
    assert record["result"]["after"] == dataclasses.asdict(found.after)


@pytest.mark.parametrize(
    ("shape", "loss"),
    [
        pytest.param({"eagle": True}, "kl", marks=deep, id="eagle"),
        pytest.param({"block": 4}, "mixed", id="block"),
    ],
)
@deep
def test_a_distilled_draft_that_reads_its_target_agrees_more_and_makes_an_exact_pair(
    shape, loss, llama_folder, prompts, tmp_path
):
    plan = dataclasses.replace(PLAN, width=None, vocabulary=200, steps=60, loss=loss, **shape)
    found = distill(str(llama_folder), prompts, tmp_path / "draft", plan)
    assert found.after.sampled > found.before.sampled + 0.03
    assert "hidden states" in (tmp_path / "draft" / "README.md").read_text()
    formats = ["fp32", "int8"]
    draft = str(tmp_path / "draft")
    export_pair(str(llama_folder), draft, tmp_path / "pair", draft_formats=formats, threads=1)
    pair = edgespec.load(tmp_path / "pair", threads=1)
    assert pair.manifest.draft.variants["int8"].distance.kl < 0.1
    accepted = 0
    for prompt in ("green stone", "under seven", "Zürich 4711"):
        plain = pair.generate(prompt, draft=False, max_new_tokens=20)
        for kind, gamma in (("model", 3), ("both", "auto")):
            drafted = pair.generate(prompt, gamma=gamma, draft=kind, max_new_tokens=20)
            assert drafted.token_ids == plain.token_ids
            accepted += drafted.stats.accepted
    assert accepted > 0


@deep
def test_overfitting_to_few_texts_is_reported(llama_folder, prompts, tmp_path):
    few = tmp_path / "few.txt"
    few.write_text("".join(prompts.read_text().splitlines(keepends=True)[:20]))
    draft = tmp_path / "draft"
    options = ["--layers", "2", "--steps", "100", "-n", "12", "--rate", "5e-3", "-o", str(draft)]
    run = CliRunner().invoke(main, ["distill", str(llama_folder), "--text", str(few), *options])
    assert run.exit_code == 0
    result = json.loads((draft / "distillation.json").read_text())["result"]
    assert result["known"] > result["after"]["greedy"] + 0.05
    assert f"greedy acceptance is {result['known']:.3f}: more prompts would help" in run.stderr
    assert f"{result['known']:.3f} (greedy)" in (draft / "README.md").read_text()


def test_the_same_seed_and_steps_give_the_same_bytes(llama_folder, prompts, tmp_path):
    plan = dataclasses.replace(PLAN, steps=6)
    for name in "ab":
        distill(str(llama_folder), prompts, tmp_path / name, plan)
    one, other = ((tmp_path / name / "model.safetensors").read_bytes() for name in "ab")
    assert one == other
