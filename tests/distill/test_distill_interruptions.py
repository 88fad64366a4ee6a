"""Claim: an interrupted run continues, a failed one leaves no trace, and neither loses a draft."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError

from depth import one_in
from distillation import PLAN, interrupted, write_family
from edgespec import version
from edgespec.errors import EdgespecError, UsageError
from edgespec_distill import card
from edgespec_distill import distill_draft as api_module
from edgespec_distill import distillation as run_module
from edgespec_distill.data import target_outputs as outputs_module
from edgespec_distill.distill_draft import distill
from edgespec_distill.models.causal import Causal
from edgespec_distill.work_folder import recipe_of
from edgespec_export.checkpoint.sources import resolve


def test_a_full_disk_is_one_line_with_the_work_folder(llama_folder, prompts, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(outputs_module, "write_examples", full)
    with pytest.raises(EdgespecError, match=r"the disk is full; .* kept in .*\.draft\.training"):
        distill(str(llama_folder), prompts, tmp_path / "draft", PLAN)


@one_in(3)
@pytest.mark.parametrize(
    "error",
    [
        OSError(28, "No space left on device"),
        RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 576 vs 534"),
        SafetensorError(
            "Error while serializing: I/O error: No space left on device (os error 28)"
        ),
    ],
)
def test_a_draft_that_does_not_fit_on_the_disk_is_not_trained_again(
    error, llama_folder, prompts, tmp_path, monkeypatch
):
    def full(*_):
        raise error

    plan = dataclasses.replace(PLAN, steps=2)
    with monkeypatch.context() as patch:
        patch.setattr(run_module, "_save", full)
        with pytest.raises(EdgespecError, match=r"the disk is full; .*\.draft\.training"):
            distill(str(llama_folder), prompts, tmp_path / "draft", plan)
    monkeypatch.delattr(run_module.Training, "_step")
    assert distill(str(llama_folder), prompts, tmp_path / "draft", plan).steps == 2


@one_in(2)
@pytest.mark.parametrize("file", ["vocabulary.pt", "minutes-written.txt"])
def test_a_file_that_a_full_disk_truncated_is_not_read(
    file, llama_folder, prompts, tmp_path, monkeypatch
):
    save, write_text = torch.save, Path.write_text

    def cut_off(data, path, *rest, write, **options):
        if not Path(path).name.removeprefix(".").startswith(file):
            return write(data, path, *rest, **options)
        Path(path).write_bytes(b"")
        raise OSError(28, "No space left on device")

    def cut_off_text(path, text, *rest, **options):
        return cut_off(text, path, *rest, **options, write=lambda t, p, **o: write_text(p, t, **o))

    plan = dataclasses.replace(PLAN, vocabulary=90, steps=2)
    with monkeypatch.context() as patch:
        patch.setattr(torch, "save", lambda *args: cut_off(*args, write=save))
        patch.setattr(Path, "write_text", cut_off_text)
        with pytest.raises(EdgespecError, match="the disk is full"):
            distill(str(llama_folder), prompts, tmp_path / "draft", plan)
    assert distill(str(llama_folder), prompts, tmp_path / "draft", plan).steps == 2


@one_in(2, turn=1)
@pytest.mark.parametrize("eagle", [False, True])
def test_an_interrupted_run_continues_without_generating_again(
    llama_folder, prompts, tmp_path, monkeypatch, eagle
):
    folder = tmp_path / "draft"
    plan = dataclasses.replace(PLAN, eagle=eagle, steps=20)

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(run_module.Training, "_step", interrupt)
        with pytest.raises(KeyboardInterrupt):
            distill(str(llama_folder), prompts, folder, plan)
    assert not folder.exists()
    with monkeypatch.context() as patch:
        patch.setattr(outputs_module, "generate_with_distributions", interrupt)
        patch.setattr(Causal, "features", interrupt)
        longer = dataclasses.replace(plan, steps=plan.steps + 20)
        found = distill(str(llama_folder), prompts, folder, longer)
    assert found.steps == longer.steps
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("changed", ["words", "target"])
def test_an_interrupted_run_is_not_continued_with_other_prompts_or_another_target(
    changed, llama_folder, prompts, tmp_path, monkeypatch
):
    target = tmp_path / "target"
    write_family("llama", target)
    with monkeypatch.context() as patch:
        patch.setattr(run_module.Training, "_step", interrupted)
        with pytest.raises(KeyboardInterrupt):
            distill(str(target), prompts, tmp_path / "draft", PLAN)
    if changed == "words":  # as many bytes
        prompts.write_text(prompts.read_text().replace("river", "delta"))
    else:
        write_family("llama", target, seed=1)
    monkeypatch.setattr(outputs_module, "generate_with_distributions", interrupted)
    with pytest.raises(KeyboardInterrupt):  # the target generates again
        distill(str(target), prompts, tmp_path / "draft", PLAN)


def test_an_interrupted_run_continues_with_another_release_and_more_time(llama_folder, monkeypatch):
    source = resolve(str(llama_folder))
    before = recipe_of(source, [[5, 6]], PLAN)
    for module in (version, card):
        monkeypatch.setattr(module, "VERSION", "9.9")
    assert recipe_of(source, [[5, 6]], dataclasses.replace(PLAN, steps=9)) == before
    assert recipe_of(source, [[6, 5]], PLAN) != before
    assert recipe_of(source, [[5, 6]], dataclasses.replace(PLAN, seed=1)) != before


def test_files_of_an_interrupted_run_do_not_end_up_in_another_draft(
    llama_folder, prompts, tmp_path, monkeypatch
):
    plan = dataclasses.replace(PLAN, steps=1)
    some = dataclasses.replace(plan, vocabulary=90)
    with monkeypatch.context() as patch:
        patch.setattr(api_module, "write_card", interrupted)
        with pytest.raises(KeyboardInterrupt):
            distill(str(llama_folder), prompts, tmp_path / "draft", some)
    distill(str(llama_folder), prompts, tmp_path / "draft", plan)
    assert not (tmp_path / "draft" / "draft_vocabulary.json").exists()


def test_a_finished_draft_survives_a_failure_of_the_next_run(
    llama_folder, prompts, tmp_path, monkeypatch
):
    folder = tmp_path / "draft"
    plan = dataclasses.replace(PLAN, steps=2)
    distill(str(llama_folder), prompts, folder, plan)
    before = (folder / "model.safetensors").read_bytes()
    with pytest.raises(UsageError, match="holds a distilled draft already"):
        distill(str(llama_folder), prompts, folder, plan)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(api_module, "write_card", full)
    with pytest.raises(EdgespecError, match="the disk is full"):
        distill(str(llama_folder), prompts, folder, plan, replace=True)
    assert (folder / "model.safetensors").read_bytes() == before
