"""Claim: a chat model can write the prompts that its draft is trained on."""

from __future__ import annotations

import dataclasses
import json
import shutil

import pytest

import edgespec
from depth import deep
from distillation import PLAN, causal
from edgespec_distill.data import own_prompts as module
from edgespec_distill.data.own_prompts import own_prompts
from edgespec_distill.distill_draft import distill
from edgespec_export.checkpoint.checkpoint import open_checkpoint
from edgespec_export.checkpoint.sources import resolve

TEMPLATE = (
    "{% for message in messages %}[{{ message.role }}]{{ message.content }}|{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)
ENDS = range(200, 232)  # so many tokens end a text that random weights end most


@pytest.fixture(scope="module")
def chat_folder(llama_folder, tmp_path_factory):
    folder = shutil.copytree(llama_folder, tmp_path_factory.mktemp("chat") / "target")
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE}))
    return folder


@pytest.fixture
def checkpoint(chat_folder):
    return open_checkpoint(resolve(str(chat_folder)))


def test_prompts_are_different_and_in_the_chat_format(chat_folder, checkpoint, tmp_path):
    found = own_prompts(causal(chat_folder), checkpoint, 20, ENDS, tmp_path / "kept.json", 0)
    texts = [checkpoint.tokenizer.decode(ids) for ids in found]
    assert len(set(texts)) == 20
    for text in texts:
        assert text.startswith("[user]")
        assert text.endswith("|[assistant]")
    lines = json.loads((tmp_path / "kept.json").read_text())["lines"]
    assert all(line == line.strip() != "" for line in lines)


def test_an_interrupted_run_has_the_same_ones(chat_folder, checkpoint, tmp_path, monkeypatch):
    target = causal(chat_folder)
    first = own_prompts(target, checkpoint, 16, ENDS, tmp_path / "kept.json", 0)
    monkeypatch.delattr(module, "generate_texts")
    assert own_prompts(target, checkpoint, 16, ENDS, tmp_path / "kept.json", 0) == first


def test_a_target_that_ends_no_message_is_named(chat_folder, checkpoint, tmp_path):
    with pytest.raises(edgespec.errors.UsageError, match="ended no message of a user within 96"):
        own_prompts(causal(chat_folder), checkpoint, 1, [100_000], tmp_path / "kept.json", 0)


@deep
def test_a_draft_is_trained_without_a_file_of_prompts(chat_folder, tmp_path):
    folder = shutil.copytree(chat_folder, tmp_path / "target")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "eos_token_id": list(ENDS)}))
    plan = dataclasses.replace(PLAN, steps=30, own_prompts=40, width=None)
    found = distill(str(folder), None, tmp_path / "draft", plan)
    assert found.prompts + found.held_out == 40
    assert found.after.sampled > found.before.sampled


@pytest.mark.parametrize(
    ("own", "words"),
    [
        (20, "has no chat format whose header it could continue; leave --own-prompts out"),
        (3, "no prompts and the target writes 3; give at least 16"),
        (-1, "own_prompts is -1; give 0 or more"),
    ],
)
def test_what_cannot_be_written_is_refused(llama_folder, tmp_path, own, words):
    plan = dataclasses.replace(PLAN, own_prompts=own)
    with pytest.raises(edgespec.errors.UsageError, match=words):
        distill(str(llama_folder), None, tmp_path / "draft", plan)
