"""Claim: libedgespec scores the candidates that Python scores, in sessions and in batches: they
change how fast a text comes, and nothing else.

Their number follows from the draft and from the costs of rounds. By the clock these would differ
from run to run, so the targets here count as not row-invariant, and costs are guessed, alike for
all instruction sets.
"""

from __future__ import annotations

import ctypes
import json
import shutil

import numpy as np
import pytest

import edgespec
from checkpoints import byte_tokenizer, write_llama, write_noisy, write_t5
from depth import one_in
from eagle_checkpoints import write_eagle, write_target
from edgespec.core import decode
from edgespec.core.model import Candidate
from edgespec.costs.controller import Confident
from edgespec.drafters import model_drafter
from edgespec_export.export_pair import export_pair
from looking_large import cost_alike, find_of_target, look_large
from native_library import NativeModel
from native_texts import DRAFTS, librarys_texts, pythons_texts

INT8 = {"target_formats": ["int8"], "draft_formats": ["int8"]}
TINY = {"vocab_size": 272, "head_size": 16}
PROMPTS = [list(prompt.encode()) for prompt in ("Candidates", "a", "next to the line", "…")]
WAYS = (
    {},
    {"logprobs": 1},
    {"repetition_penalty": 1.2, "logprobs": 1},
    {"temperature": 0.8, "top_p": 0.95},
    {"temperature": 1.0, "presence_penalty": 0.5, "logprobs": 1},
    {"temperature": 1.0, "top_p": 0.3, "rule": "token"},
    {"temperature": 0.7, "min_p": 0.8, "rule": "block", "logprobs": 1},
)


def llama(folder):
    tokenizer = byte_tokenizer(272)
    shape = {"kv_heads": 1, "tie_word_embeddings": True}
    target = write_llama(folder / "target", **TINY, tokenizer=tokenizer, **shape)
    return target, write_noisy(target, folder / "draft", noise=0.2)


def t5(folder):
    tokenizer = byte_tokenizer(272, append_eos=True)
    target = write_t5(folder / "target", **TINY, tokenizer=tokenizer, tie_word_embeddings=True)
    return target, write_noisy(target, folder / "draft", noise=0.2)


def eagle(folder):
    target = write_target(folder / "target", "llama")
    write_eagle(target, folder / "draft")
    return target, folder / "draft"


@pytest.fixture(scope="module", params=[llama, t5, eagle], ids=lambda write: write.__name__)
def folder(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("candidates")
    target, draft = request.param(folder)
    export_pair(str(target), str(draft), folder / "pair", threads=1, **INT8)
    look_large(folder / "pair")
    cost_alike(folder / "pair")
    find_of_target(folder / "pair", is_row_invariant=False)
    return folder / "pair"


@pytest.fixture(scope="module")
def pair(folder):
    return edgespec.load(folder, threads=1, allow_inexact=True)


@pytest.fixture(scope="module")
def model(built, folder):
    return NativeModel(folder, threads=1, allow_inexact=1)


@pytest.mark.parametrize("draft", DRAFTS)
def test_texts_and_rounds_are_pythons(model, pair, draft):
    committed = 0
    for given in WAYS:
        texts, count = pythons_texts(pair, PROMPTS, draft, given)
        assert librarys_texts(model, PROMPTS, draft, given) == texts, given
        committed += count
    assert committed > 10


def never_commits(monkeypatch):
    monkeypatch.setattr(decode, "_commit", lambda *_: None)


def takes_one_less(monkeypatch):
    monkeypatch.setattr(model_drafter, "TOP_K", 2)


def wants_twice_the_probability(monkeypatch):
    worth = Confident.worth_candidate
    monkeypatch.setattr(
        Confident, "worth_candidate", lambda self, p, rows: worth(self, p / 2, rows)
    )


def gives_them_the_next_parent(monkeypatch):
    def behind(parent, token):
        return Candidate(parent + 1, token)

    monkeypatch.setattr(model_drafter, "Candidate", behind)


MISTAKES = [never_commits, takes_one_less, wants_twice_the_probability, gives_them_the_next_parent]


@one_in(3)
@pytest.mark.parametrize("mistake", MISTAKES)
def test_other_candidates_are_found(model, pair, monkeypatch, mistake):
    mistake(monkeypatch)
    assert any(
        librarys_texts(model, PROMPTS, "model", given)
        != pythons_texts(pair, PROMPTS, "model", given)[0]
        for given in WAYS
    )


@one_in(3)
@pytest.mark.parametrize("given", WAYS)
def test_texts_of_a_batch_have_the_rounds_of_those_alone(model, given):
    options = {**given, "draft": 1, "max_new_tokens": 40, "ignore_eos": 1}
    batch = model.batch(len(PROMPTS))
    for seed, prompt in enumerate(PROMPTS):
        batch.add(prompt, seed=seed, **options)
    batch.finish()
    together = [(text.tokens, text.rounds, text.logprobs) for text in batch.made.values()]
    alone = [
        (tokens, rounds, logs)
        for tokens, rounds, _, _, logs in librarys_texts(model, PROMPTS, "model", given)
    ]
    assert together == alone


def test_a_session_forked_after_each_piece_goes_on_alike(model):
    for given in (WAYS[0], WAYS[5]):
        session = model.session()
        session.begin(PROMPTS[0], seed=0, draft=1, max_new_tokens=40, ignore_eos=1, **given)
        pieces, forks = [], []
        for piece in session.pieces():
            pieces.append(piece)
            forks.append(session.fork())
        for number, fork in enumerate(forks):
            assert list(fork.pieces()) == pieces[number + 1 :]


def test_a_text_that_ends_within_a_round_ends_there(model):
    session = model.session()
    whole = session.text(PROMPTS[0], draft=0, max_new_tokens=30, ignore_eos=1)
    for count in range(30):
        given = {"max_new_tokens": count, "ignore_eos": 1}
        assert session.text(PROMPTS[0], draft=1, **given) == whole[:count]


def test_a_full_cache_ends_a_text_as_plain_decoding(folder, built):
    session = NativeModel(folder, threads=1, allow_inexact=1, capacity=40).session()
    plain = session.text(PROMPTS[2], draft=0, ignore_eos=1), session.ending
    assert (session.text(PROMPTS[2], draft=1, ignore_eos=1), session.ending) == plain
    assert session.ending == "capacity"


def test_a_target_whose_candidates_differ_scores_none(pair, folder, built, monkeypatch, tmp_path):
    own = shutil.copytree(folder, tmp_path / "pair")
    find_of_target(own, candidates=False)
    monkeypatch.setattr(pair.target, "scores_candidates", False, raising=False)
    texts, committed = pythons_texts(pair, PROMPTS, "model", {})
    assert not committed
    own_model = NativeModel(own, threads=1, allow_inexact=1)
    assert librarys_texts(own_model, PROMPTS, "model", {}) == texts


def test_candidates_are_measured(hooks):
    generator = np.random.default_rng(0)
    table = generator.standard_normal((40, 40)).astype(np.float32)
    found = [
        hooks.edgespec_hook_exact_candidates(
            table.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(40), ctypes.c_int32(misread)
        )
        for misread in (0, 1)
    ]
    assert found == [1, 0]


def test_what_was_measured_is_kept(folder, built, tmp_path):
    own = shutil.copytree(folder, tmp_path / "pair")
    find_of_target(own, machine="another")
    (own / "row_invariance.json").unlink(missing_ok=True)
    NativeModel(own, threads=1)
    (entry,) = json.loads((own / "row_invariance.json").read_text())
    assert entry["row_invariance"]["candidates"] is True
