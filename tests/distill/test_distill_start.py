"""Claim: a training with `start` continues from the finished draft, and from no other."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from depth import deep
from distillation import LATER, PLAN
from edgespec.cli.main import main
from edgespec.errors import UsageError
from edgespec_distill.data import target_outputs as outputs_module
from edgespec_distill.distill_draft import distill
from edgespec_distill.plan import Plan
from edgespec_distill.start import with_shape_of_start
from edgespec_distill.work_folder import recipe_of
from edgespec_export.checkpoint.sources import resolve


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        ("t5", {"width": 32, "vocabulary": 90}),
        pytest.param("llama", {"width": 32}, marks=deep),
        ("llama", {"eagle": True, "width": None, "vocabulary": 200}),
    ],
)
def test_a_training_with_start_begins_where_that_draft_ended(
    kind, shape, t5_folder, llama_folder, prompts, tmp_path
):
    target = str(t5_folder if kind == "t5" else llama_folder)
    first, second = tmp_path / "first", tmp_path / "second"
    plan = dataclasses.replace(PLAN, steps=40, **shape)
    one = distill(target, prompts, first, plan)
    other = distill(target, prompts, second, Plan(**{**LATER, "start": str(first)}))
    assert other.before.sampled == pytest.approx(one.after.sampled, abs=2e-3)  # saved in fp16
    assert one.before.sampled < one.after.sampled - 0.01
    assert other.draft_parameters == one.draft_parameters
    assert "weights of the draft first" in (second / "README.md").read_text()
    record = json.loads((second / "distillation.json").read_text())
    assert record["plan"]["start"] == "first"  # not its path, which may be private
    names = {"config.json", "model.safetensors", "distillation.json", "tokenizer.json"}
    assert names <= {file.name for file in second.iterdir()}


def test_start_needs_a_distilled_draft_of_the_same_target(
    llama_folder, t5_folder, prompts, tmp_path, monkeypatch
):
    with pytest.raises(UsageError, match="which is not a draft that edgespec distill wrote"):
        distill(str(llama_folder), prompts, tmp_path / "d", Plan(**LATER, start=str(llama_folder)))
    of_t5 = tmp_path / "of-t5"
    distill(str(t5_folder), prompts, of_t5, dataclasses.replace(PLAN, steps=1))
    record = json.loads((of_t5 / "distillation.json").read_text())
    record["plan"]["encoder_layers"] = None
    (of_t5 / "distillation.json").write_text(json.dumps(record))
    monkeypatch.delattr(outputs_module, "generate_with_distributions")  # which takes an hour
    with pytest.raises(UsageError, match="start from a draft of the same target"):
        distill(str(llama_folder), prompts, tmp_path / "d", Plan(**LATER, start=str(of_t5)))


def test_a_run_with_another_start_is_not_continued(llama_folder, tmp_path, monkeypatch):
    start = tmp_path / "start"
    start.mkdir()
    plan = dataclasses.replace(PLAN, start=str(start))
    source = resolve(str(llama_folder))
    empty = recipe_of(source, [[1]], plan)
    (start / "model.safetensors").write_bytes(b"weights")
    filled = recipe_of(source, [[1]], plan)
    assert filled != empty
    monkeypatch.chdir(tmp_path)
    assert recipe_of(source, [[1]], dataclasses.replace(plan, start="start")) == filled


@pytest.mark.parametrize("name", ["en-de-draft", "smollm2-draft"])
def test_the_shipped_drafts_can_be_a_start(name):
    folder = Path(__file__).parents[2] / "models" / name
    plan = with_shape_of_start(Plan(layers=7, steps=1, start=str(folder)))
    assert plan.layers == 1
    assert plan.eagle == (name == "smollm2-draft")


@pytest.mark.parametrize("option", [["--layers", "2"], ["--vocabulary", "90"], ["--eagle"]])
def test_options_of_the_shape_are_refused_with_start(option, llama_folder, prompts, tmp_path):
    command = ["distill", str(llama_folder), "--text", str(prompts), "--steps", "1", "-o"]
    given = [*command, str(tmp_path / "draft"), "--start", str(tmp_path), *option]
    run = CliRunner().invoke(main, given)
    assert run.exit_code == 2
    message = f"{option[0]} is given with --start, whose draft has a shape already; leave it out"
    assert run.stderr == f"edgespec: {message}\n"
