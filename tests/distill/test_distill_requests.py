"""Claim: a request that cannot be trained is one line, before torch is loaded."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from bart_checkpoints import write_bart
from depth import one_in
from distillation import PLAN, write_family
from edgespec.cli.main import main
from edgespec.errors import EdgespecError, UsageError
from edgespec_distill import distillation as run_module
from edgespec_distill.data.training_prompts import read_prompts
from edgespec_distill.distill_draft import distill
from edgespec_distill.plan import LOSS_NAMES, plan_for
from edgespec_distill.training.loss import LOSSES
from edgespec_export.checkpoint.checkpoint import open_checkpoint
from edgespec_export.checkpoint.sources import resolve


@one_in(3)
@pytest.mark.parametrize("kind", [{"vocabulary": 90}, {"eagle": True}, {"block": 3}])
def test_a_draft_that_needs_its_target_cannot_be_a_target(kind, llama_folder, prompts, tmp_path):
    draft = tmp_path / "draft"
    distill(str(llama_folder), prompts, draft, dataclasses.replace(PLAN, steps=1, **kind))
    with pytest.raises(EdgespecError, match=r"is a draft that .*, so it cannot be a target"):
        distill(str(draft), prompts, tmp_path / "second", PLAN)


def test_the_help_says_that_one_of_minutes_and_steps_is_required():
    words = CliRunner().invoke(main, ["distill", "--help"]).output.split()
    assert "this or --steps is required" in " ".join(words)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"width": 40}, "width is 40; give a multiple of 16 below the target's, which is 64"),
        ({"width": 640}, "width is 640; .* which is 64, or leave it out"),
        ({"encoder_layers": 1}, "encoder_layers is 1; the target has no encoder"),
        ({"layers": 9}, "layers is 9; the target has 3"),
        ({"layers": 0}, "layers is 0"),
        ({"steps": None}, "give --minutes or --steps"),
        ({"minutes": 1.0}, "give --minutes or --steps"),
        ({"minutes": float("nan"), "steps": None}, "minutes is nan; give a number above 0"),
        ({"minutes": float("inf"), "steps": None}, "minutes is inf"),
        ({"rate": -1.0}, "rate is -1.0; give a number above 0"),
        ({"rate": float("nan")}, "rate is nan"),
        ({"disk": -1.0}, "disk is -1.0; give gigabytes, 0 or more"),
        ({"positions": 0}, "positions is 0; give 1 or more"),
        ({"loss": "mse"}, "loss is 'mse'; give one of: kl, tv"),
        ({"chat": True}, "has no chat format"),
        ({"eagle": True, "on_policy": True}, "is not trained on_policy"),
        ({"block": 3, "on_policy": True}, r"\(block\) is not trained on_policy"),
        ({"block": 3, "eagle": True}, "is eagle or has a block; leave one of them out"),
        ({"block": 1}, "block is 1; give 2 or more"),
        ({"block": 18}, "block is 18; give at most 17"),
        ({"vocabulary": 2}, "vocabulary is 2; give 3 or more"),
    ],
)
def test_an_impossible_plan_is_one_line_before_the_target_is_loaded(
    changes, words, llama_folder, prompts, tmp_path, monkeypatch
):
    monkeypatch.delattr(run_module, "open_target")
    with pytest.raises(UsageError, match=words) as error:
        distill(str(llama_folder), prompts, tmp_path / "d", dataclasses.replace(PLAN, **changes))
    assert "\n" not in str(error.value)
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"encoder_layers": 2}, r"encoder_layers is 2; the target has 1: give fewer"),
        ({"layers": 3}, r"encoder_layers is 3 \(as many as layers\); the target has 1"),
    ],
)
def test_a_draft_has_no_more_encoder_layers_than_its_target(
    changes, words, prompts, tmp_path, monkeypatch
):
    monkeypatch.delattr(run_module, "open_target")
    target = write_family("t5 v1.0", tmp_path / "target", layers=3, encoder_layers=1)
    with pytest.raises(UsageError, match=words):
        distill(str(target), prompts, tmp_path / "d", dataclasses.replace(PLAN, **changes))


@pytest.mark.parametrize(("option", "value"), [("eagle", True), ("block", 3)])
def test_a_bart_cannot_have_a_draft_that_reads_it(option, value, prompts, tmp_path):
    target = write_bart(tmp_path / "bart", "bart")
    plan = dataclasses.replace(PLAN, **{option: value})
    with pytest.raises(UsageError, match=f"needs a T5-like target, or .*: leave {option} out"):
        distill(str(target), prompts, tmp_path / "d", plan)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "has no text"),
        (b"one\ntwo\none\n", "has 2 different prompts"),
        (b"\xff\xfe\n" * 40, "is not UTF-8"),
        (None, "cannot be read"),
    ],
)
def test_an_unusable_prompts_file_is_one_line(content, words, llama_folder, tmp_path):
    file = tmp_path / "prompts.txt"
    if content is not None:
        file.write_bytes(content)
    arguments = ["distill", str(llama_folder), "--text", str(file), "-o", str(tmp_path / "d")]
    result = CliRunner().invoke(main, [*arguments, "--steps", "1"])
    assert result.exit_code == 2
    assert words in result.output
    assert result.output.count("\n") == 1


@pytest.mark.parametrize("line", ["no JSON", "3", '""'])
def test_a_jsonl_file_with_something_else_than_texts_is_one_line(line, llama_folder, tmp_path):
    file = tmp_path / "prompts.jsonl"
    file.write_text("\n".join([*(f'"{n}"' for n in range(40)), line]))
    arguments = ["distill", str(llama_folder), "--text", str(file), "-o", str(tmp_path / "d")]
    result = CliRunner().invoke(main, [*arguments, "--steps", "1"])
    assert result.exit_code == 2
    assert "has a JSON string with text on each line" in result.output


def test_prompts_of_several_lines_are_strings_of_a_jsonl_file(llama_folder, tmp_path):
    texts = [f"def f(x):\n    return {n}" for n in range(20)]
    file = tmp_path / "prompts.jsonl"
    file.write_text("\n".join(json.dumps(text) for text in [*texts, *texts]))
    checkpoint = open_checkpoint(resolve(str(llama_folder)))
    found = read_prompts(file, checkpoint, chat=False, own=0)
    assert [checkpoint.tokenizer.decode(prompt) for prompt in found] == texts


def test_a_target_of_an_unknown_family_is_one_line(llama_folder, prompts, tmp_path):
    folder = tmp_path / "bert"
    folder.mkdir()
    for file in llama_folder.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "bert"}))
    with pytest.raises(EdgespecError, match="model_type is 'bert'"):
        distill(str(folder), prompts, tmp_path / "d", PLAN)


LOADED = """
import sys
from click.testing import CliRunner
from edgespec.cli.main import main
result = CliRunner().invoke(main, sys.argv[1:])
print(result.exit_code, {"torch", "transformers"} & set(sys.modules))
print(result.output, end="")
"""


@one_in(2)
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("target", "missing"),
        ("prompts", "cannot be read"),
        ("output", "exists and"),
        ("plan", "layers is 9; the target has 3"),
        ("own prompts", "has no chat format whose header it could continue"),
    ],
)
def test_a_wrong_request_is_found_before_torch_is_loaded(
    wrong, message, llama_folder, prompts, tmp_path
):
    (tmp_path / "output").mkdir()
    (tmp_path / "output" / "file").write_text("")
    target = tmp_path / "missing" if wrong == "target" else llama_folder
    text = tmp_path / "missing" if wrong == "prompts" else prompts
    output = tmp_path / ("output" if wrong == "output" else "draft")
    layers = "9" if wrong == "plan" else "1"
    own = "20" if wrong == "own prompts" else "0"
    command = ["distill", target, "--text", text, "-o", output, "--steps", "1", "--layers", layers]
    command += ["--own-prompts", own]
    ran = subprocess.run(
        [sys.executable, "-c", LOADED, *map(str, command)],
        capture_output=True,
        text=True,
        check=True,
    )
    first, error = ran.stdout.split("\n", 1)
    assert first.endswith(" set()"), first
    assert not first.startswith("0")
    assert message in error
    assert error.count("\n") == 1


def test_a_family_without_distillation_is_one_line_with_its_name():
    family = SimpleNamespace(
        family="phi",
        label="microsoft/phi",
        layers=2,
        width=64,
        encoder_layers=None,
        widest_window=None,
    )
    with pytest.raises(UsageError) as error:
        plan_for(PLAN, family)
    assert str(error.value) == (
        "microsoft/phi: is of family 'phi'; distill supports targets of the families 'llama' "
        "and 't5'"
    )


def test_every_loss_of_a_plan_is_implemented():
    assert LOSSES.keys() == LOSS_NAMES.keys()
