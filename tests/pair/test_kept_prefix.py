"""Claim: a text that begins with a kept prompt is the text that it is without: token by token,
log-probability by log-probability, whoever kept it, wherever it is cut, however it is drafted."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from test_conversation import computed, rough

import edgespec
from depth import DEEP, by_turns
from edgespec.artifact.chat_format import user_message
from edgespec.artifact.kept import tensor_file
from edgespec.errors import EdgespecError, UsageError
from edgespec.pair.keeping.identity import check_target
from edgespec.pair.opening import loading
from edgespec_runtimes.ort.keeping import kept_sequence

FORMS = ["fp32", "int8"]  # products of ONNX Runtime, and of the kernels
SYSTEM = "You are the keeper of the lighthouse at the end of the long mole. " * 9  # 594 tokens
WAYS = [
    {"draft": False},
    {"draft": "model", "gamma": 3},
    {"draft": "both"},
    {"draft": "lookup", "gamma": 2},
    *(
        {"draft": "model", "gamma": 3, "temperature": 1.0, "seed": 5, "rule": rule}
        for rule in ("coupled", "token", "block")
    ),
    {"draft": False, "temperature": 1.0, "seed": 5},
]


def opened(folder, **options) -> edgespec.Pair:
    return edgespec.load(folder, threads=1, **options)


@pytest.fixture(scope="module", params=FORMS)
def form(request):
    return request.param


@pytest.fixture(scope="module")
def plain(chat_folder, form):
    """Computes every prompt whole."""
    return opened(chat_folder, target_format=form)


@pytest.fixture(scope="module")
def kept(chat_folder, form, tmp_path_factory):
    """A file of the system prompt."""
    file = tmp_path_factory.mktemp("kept") / "prefix"
    assert opened(chat_folder, target_format=form).save_prefix(SYSTEM, file, chat=False) == 594
    return file


@pytest.fixture
def pair(chat_folder, form, kept):
    return opened(chat_folder, target_format=form, prefix=kept)


def text(pair, prompt, **options):
    """Its tokens and their log-probabilities."""
    options = {"max_new_tokens": 16, "chat": False, "ignore_eos": True} | options
    result = pair.generate(prompt, logprobs=True, **options)
    return result.token_ids, result.logprobs


def prompts(count, seed=0):
    """The kept prompt, cut at random, and something else after it."""
    draw = random.Random(seed)
    for _ in range(count):
        yield SYSTEM[: draw.randint(1, len(SYSTEM))] + draw.choice(["", "Now.", "What? " * 30])


# --- texts ---------------------------------------------------------------------------------------


def test_a_text_is_the_one_without_a_kept_prompt(plain, pair, form):
    for number, way in enumerate(by_turns(WAYS, FORMS.index(form), 2)):
        for prompt in [SYSTEM, SYSTEM + "Who?", *prompts(30 if DEEP else 1, number)]:
            assert text(pair, prompt, **way) == text(plain, prompt, **way)


@pytest.mark.parametrize("way", by_turns(WAYS, 1, 4), ids=str)
def test_answers_of_a_conversation_are_those_without(plain, chat_folder, form, tmp_path, way):
    messages = [user_message("a" * 300), {"role": "assistant", "content": "Of course. " * 20}]
    opened(chat_folder, target_format=form).save_prefix(messages, tmp_path / "chat")
    pair = opened(chat_folder, target_format=form, prefix=tmp_path / "chat")
    for following in ("And?", "b" * 200):
        asked = [*messages, user_message(following)]
        assert text(pair, asked, chat=None, **way) == text(plain, asked, chat=None, **way)


def test_continuations_share_a_kept_prompt(plain, pair):
    """Those of a batch, too, and several of one prompt."""
    asked = [SYSTEM + end for end in ("One", "Two", "Three")]
    options = {"max_new_tokens": 9, "chat": False, "ignore_eos": True, "temperature": 1.0}
    expected = list(plain.generate_many(asked, n=2, seed=3, **options))
    found = list(pair.generate_many(asked, n=2, seed=3, **options))
    assert [each.token_ids for each in found] == [each.token_ids for each in expected]
    alone = [
        plain.generate(prompt, seed=3 + number, **options).token_ids
        for number, prompt in enumerate(prompt for prompt in asked for _ in range(2))
    ]
    assert [each.token_ids for each in found] == alone


@pytest.mark.parametrize("form", FORMS[1:], indirect=True, scope="module")
def test_another_process_has_the_same_text(chat_folder, kept, plain, form):
    program = (
        "import sys, edgespec\n"
        "folder, form, file, prompt = sys.argv[1:]\n"
        "pair = edgespec.load(folder, threads=1, target_format=form, prefix=file)\n"
        "options = dict(max_new_tokens=16, chat=False, ignore_eos=True)\n"
        "print(pair.generate(prompt, **options).token_ids)\n"
    )
    arguments = [str(chat_folder), form, str(kept), SYSTEM + "Who?"]
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == text(plain, SYSTEM + "Who?")[0]


# --- what is computed ----------------------------------------------------------------------------


def test_a_kept_prompt_is_not_computed_again(pair, monkeypatch):
    prompt = SYSTEM + "Who are you?"
    for _ in range(2):
        with computed(pair.target, monkeypatch) as calls:
            pair.generate(prompt, max_new_tokens=2, chat=False, draft=False)
        rest = len(prompt) - 1 - len(SYSTEM)
        partly = len(SYSTEM) % 256  # of the last long call, which would have other tokens
        assert sum(calls) in (rest, rest + partly)
        pair.generate("something else", max_new_tokens=2, chat=False, draft=False)


def test_without_the_prefix_everything_is_computed(pair, monkeypatch):
    pair.forget_prefix()
    with computed(pair.target, monkeypatch) as calls:
        pair.generate(SYSTEM, max_new_tokens=2, chat=False, draft=False)
    assert sum(calls) == len(SYSTEM) - 1


def test_a_file_is_as_large_as_the_caches_part(pair, kept, plain):
    caches = sum(
        array[:, :, : len(SYSTEM)].nbytes
        for model in (plain.target, plain.draft)
        for array in model.cache.values()
    )
    assert caches < kept.stat().st_size < caches + 50 * len(SYSTEM) + 10_000


def scaled(monkeypatch):
    """Mutant: values of another position."""
    copy = kept_sequence.KeptSequence.copy_to

    def wrongly(self, cache, features, states, start, count):
        copy(self, cache, features, states, start, count)
        for array in cache.arrays.values():
            array[0, :, start + 1] = array[0, :, start]

    monkeypatch.setattr(kept_sequence.KeptSequence, "copy_to", wrongly)


def longer(monkeypatch):
    """Mutant: all positions of the file, whether the prompt has them or not."""
    monkeypatch.setattr(
        kept_sequence.KeptSequence,
        "usable",
        lambda self, wanted: min(len(self.positions), len(wanted)),
    )


@pytest.mark.parametrize("mutant", [scaled, longer])
def test_a_wrong_copy_is_seen(plain, pair, monkeypatch, mutant):
    mutant(monkeypatch)
    prompt = SYSTEM[:300] + "?" + SYSTEM[301:]
    assert text(pair, prompt) != text(plain, prompt)


def test_long_calls_that_round_otherwise_are_taken_whole_or_not(chat_folder, tmp_path, monkeypatch):
    """Where rows are not known to be the same in any call."""
    file = tmp_path / "rough"
    pair, plain = (opened(chat_folder, target_format="fp32") for _ in range(2))
    for each in (pair, plain):
        each.text_engine.parts = dataclasses.replace(each.parts, shares_calls=False)
        rough(each.target, monkeypatch)
    pair.save_prefix(SYSTEM, file, chat=False)
    pair.target.rewind(0)
    pair.use_prefix(file)
    for prompt in (SYSTEM + "Who?", SYSTEM[:400] + "?", SYSTEM[:256], SYSTEM):
        assert text(pair, prompt, draft=False) == text(plain, prompt, draft=False)


# --- refusals ------------------------------------------------------------------------------------


def refused(pair, file) -> str:
    with pytest.raises(EdgespecError) as error:
        pair.use_prefix(file)
    line = str(error.value)
    assert "\n" not in line
    assert str(file) in line
    return line


def test_what_was_kept_with_other_models_is_refused(chat_folder, tool_pair, kept, form):
    assert "another model" in refused(tool_pair, kept)
    runs = {"fp32": "int8", "int8": "fp32"}[form]
    other = opened(chat_folder, target_format=runs)
    said = refused(other, kept)
    assert f" {form}), and this is " in said
    assert f" {runs}; keep" in said


def test_a_file_of_another_format_is_refused_before_anything_is_measured(
    chat_folder, kept, form, monkeypatch
):
    for name in ("invariance_here", "open_model"):
        monkeypatch.setattr(loading, name, None)
    runs = {"fp32": "int8", "int8": "fp32"}[form]
    with pytest.raises(EdgespecError, match=rf" {form}\), and this is .* {runs}; keep"):
        opened(chat_folder, target_format=runs, prefix=kept)


def test_what_is_said_of_another_target_is_cut_between_words():
    here = {"target.model": "1", "target.runtime": "2", "target.title": "a/model int8, run, here"}

    def said(title, **changed) -> str:
        with pytest.raises(EdgespecError) as error:
            check_target(Path("file"), here | {"target.title": title} | changed, here)
        assert len(str(error.value)) < 500
        return str(error.value)

    other = {"target.model": "3"}
    export = said("a/model int8, run, here", **other)
    assert "another export (a/model int8), and this is a/model int8; keep" in export
    number_format = said("a/model int4, run, here", **other)
    assert "number format (a/model int4), and this is a/model int8; keep" in number_format
    assert f"({'word ' * 31}…)" in said("word " * 99, **other)
    assert "(…)" in said("x" * 9999, **other)
    programs = said("a/model int8, old", **{"target.runtime": "4"})
    assert "(a/model int8, old), and this is a/model int8, run, here; keep" in programs


def test_what_was_kept_with_other_programs_is_refused(chat_folder, kept, form, monkeypatch):
    monkeypatch.setenv("EDGESPEC_KERNELS", "0")
    pair = opened(chat_folder, target_format=form, allow_inexact=True)
    assert "another runtime or kernels" in refused(pair, kept)


def test_what_was_kept_of_another_draft_is_left_out(chat_folder, plain, kept, form, tmp_path):
    metadata, arrays = tensor_file.read_tensors(kept)
    file = tmp_path / "other"
    tensor_file.write_tensors(file, {**metadata, "draft.model": "another"}, arrays)
    pair = opened(chat_folder, target_format=form, prefix=file)
    way = {"draft": "model", "gamma": 3, "temperature": 1.0, "seed": 5, "rule": "token"}
    assert text(pair, SYSTEM + "Who?", **way) == text(plain, SYSTEM + "Who?", **way)
    assert pair.draft.prefixes.best([], -1) is None


def test_what_is_no_file_is_one_line(tiny, tmp_path):
    refused(tiny, tmp_path / "none")
    refused(tiny, tmp_path)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        refused(tiny, tmp_path / "pipe")


def test_a_signed_file_of_other_arrays_is_one_line(tiny_folder, tmp_path):
    pair, file = opened(tiny_folder), tmp_path / "prefix"
    pair.save_prefix("A short prompt", file)
    metadata, arrays = tensor_file.read_tensors(file)
    for name in arrays:
        fewer = {key: array for key, array in arrays.items() if key != name}
        other = {**arrays, name: np.zeros((1, 1), np.float32)}
        for changed in (fewer, other):
            tensor_file.write_tensors(tmp_path / "changed", metadata, changed)
            refused(pair, tmp_path / "changed")
    assert pair.target.prefixes.best([], -1) is None, "nothing of them stays"


def test_a_prompt_that_leaves_no_room_is_refused(tiny, tmp_path):
    with pytest.raises(UsageError, match="room for 95"):
        tiny.save_prefix([5] * 96, tmp_path / "prefix")
    assert not any(tmp_path.iterdir())


def test_only_its_owner_can_read_a_file(tiny, tmp_path):
    tiny.save_prefix("A short prompt", tmp_path / "prefix")
    assert stat.S_IMODE((tmp_path / "prefix").stat().st_mode) == 0o600


def test_a_folder_that_cannot_be_written_is_one_line(tiny, tmp_path):
    with pytest.raises(EdgespecError, match="cannot be written") as error:
        tiny.save_prefix("A short prompt", tmp_path / "none" / "prefix")
    assert "\n" not in str(error.value)


def test_the_layout_is_that_of_safetensors(tiny, tmp_path):
    from safetensors.numpy import load_file

    tiny.save_prefix("A short prompt", tmp_path / "prefix")
    _, arrays = tensor_file.read_tensors(tmp_path / "prefix")
    other = load_file(tmp_path / "prefix")
    assert arrays.keys() == other.keys()
    assert all(np.array_equal(arrays[name], other[name]) for name in other)
