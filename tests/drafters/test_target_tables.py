"""Claim: an EAGLE head without tables has those rows of its target's that are its tokens."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import edgespec
from distillation import PLAN
from eagle_checkpoints import PROMPT, write_eagle, write_target
from edgespec.errors import EdgespecError, UsageError
from edgespec_distill.distill_draft import distill
from edgespec_export.checkpoint.tokenizer.tokenizers_file import load_tokenizer
from edgespec_export.export_pair import export_pair

TOKENS = 120
TABLES = ("model.embed_tokens.weight", "lm_head.weight")


@pytest.fixture(scope="module", params=["llama", "qwen3"])  # one table, two tables
def target(request, tmp_path_factory) -> Path:
    return write_target(tmp_path_factory.mktemp("target") / request.param, request.param)


def exported(target: Path, draft: Path, folder: Path) -> dict[str, bytes]:
    """The files of a pair's draft."""
    export_pair(
        str(target),
        str(draft),
        folder,
        target_formats=("fp32",),
        draft_formats=("fp32", "int8"),
        measure=False,
    )
    files = sorted((folder / "draft").rglob("*"))
    return {str(file.relative_to(folder)): file.read_bytes() for file in files if file.is_file()}


def with_tables(head: Path, target: Path, folder: Path) -> Path:
    """The same head with copies of its tables."""
    folder.mkdir()
    stored, config = load_file(head / "model.safetensors"), json.loads(_text(head / "config.json"))
    outputs = json.loads(_text(head / "draft_vocabulary.json"))["outputs"]
    theirs = load_file(target / "model.safetensors")
    names = TABLES[:1] if config["tie_word_embeddings"] else TABLES
    tables = {name: theirs[name][outputs].contiguous() for name in names}
    save_file({**stored, **tables}, folder / "model.safetensors")
    del config["target_tables"]
    (folder / "config.json").write_text(json.dumps(config))
    vocabulary = "draft_vocabulary.json"
    (folder / vocabulary).write_bytes((head / vocabulary).read_bytes())
    settings = json.loads(_text(target / "config.json"))
    load_tokenizer(target, settings).save(str(folder / "tokenizer.json"))
    return folder


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def test_its_export_is_that_of_a_head_with_copies_of_these_rows(target, tmp_path):
    head = tmp_path / "head"
    write_eagle(target, head, tokens=TOKENS, target_tables=True)
    assert not set(TABLES) & set(load_file(head / "model.safetensors"))
    whole = with_tables(head, target, tmp_path / "whole")
    found = exported(target, head, tmp_path / "found")
    wanted = exported(target, whole, tmp_path / "wanted")
    assert found == wanted
    pair = edgespec.load(tmp_path / "found", threads=1)
    plain = pair.generate(PROMPT, draft=False, max_new_tokens=12)
    assert pair.generate(PROMPT, gamma=2, max_new_tokens=12).token_ids == plain.token_ids


def test_distill_neither_trains_nor_stores_them_and_goes_on_from_such_a_head(
    llama_folder, prompts, tmp_path
):
    shape = {"eagle": True, "width": None, "vocabulary": TOKENS, "target_tables": True}
    plan = dataclasses.replace(PLAN, **shape, feed_forward=20, steps=6)
    distill(str(llama_folder), prompts, tmp_path / "first", plan)
    stored = load_file(tmp_path / "first" / "model.safetensors")
    assert not set(TABLES) & set(stored)
    assert stored["model.layers.0.mlp.gate_proj.weight"].shape == (20, 64)
    assert stored["model.layers.0.mlp.down_proj.weight"].shape == (64, 20)
    assert not (tmp_path / "first" / "tokenizer.json").exists()
    later = dataclasses.replace(PLAN, width=None, start=str(tmp_path / "first"), steps=2)
    found = distill(str(llama_folder), prompts, tmp_path / "second", later)
    assert found.before.greedy >= 0
    again = load_file(tmp_path / "second" / "model.safetensors")
    assert stored.keys() == again.keys()
    exported(llama_folder, tmp_path / "second", tmp_path / "pair")


def test_units_of_the_feed_forward_that_start_it_are_those_that_write_most(llama_folder):
    from distillation import causal
    from edgespec_distill.data.draft_vocabulary import full_vocabulary
    from edgespec_distill.models.untrained_draft import last_layers, untrained_draft

    whole = causal(llama_folder).model
    draft = untrained_draft(
        whole,
        layers=1,
        encoder_layers=None,
        width=None,
        feed_forward=5,
        vocabulary=full_vocabulary(len(whole.get_input_embeddings().weight)),
        seed=0,
        keep=last_layers,
    )
    theirs, ours = whole.model.layers[-1].mlp, draft.model.layers[0].mlp
    sizes = theirs.down_proj.weight.norm(dim=0)
    units = [int(unit) for unit in range(len(sizes)) if int((sizes > sizes[unit]).sum()) < 5]
    assert torch.equal(ours.down_proj.weight, theirs.down_proj.weight[:, units])
    assert torch.equal(ours.gate_proj.weight, theirs.gate_proj.weight[units])
    assert torch.equal(ours.up_proj.weight, theirs.up_proj.weight[units])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"feed_forward": 8}, "feed_forward goes with eagle or block"),
        ({"target_tables": True, "width": None}, "target_tables goes with eagle"),
        ({"target_tables": True, "eagle": True}, "in the target's width"),
        ({"feed_forward": 10**4, "eagle": True}, "feed_forward is 10000; the target has"),
    ],
)
def test_what_does_not_go_together_is_refused(settings, words, llama_folder, prompts, tmp_path):
    plan = dataclasses.replace(PLAN, **settings)
    with pytest.raises(UsageError, match=words):
        distill(str(llama_folder), prompts, tmp_path / "draft", plan)


def test_another_target_and_a_head_as_a_target_are_refused(target, tmp_path):
    head = tmp_path / "head"
    write_eagle(target, head, tokens=TOKENS, target_tables=True)
    config = json.loads(_text(head / "config.json"))
    (head / "config.json").write_text(json.dumps({**config, "hidden_size": 32}))
    with pytest.raises(EdgespecError, match=r"a target of width 32, and .* has width 64; pair"):
        export_pair(str(target), str(head), tmp_path / "pair")
    with pytest.raises(EdgespecError, match="cannot be a target"):
        export_pair(str(head), None, tmp_path / "pair")
