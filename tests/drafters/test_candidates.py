"""Claim: candidates (alternatives to drafted tokens) change how fast a text comes, nothing else.

Kernels score them in the verification call. A candidate that turns out to be the correction has
been scored already, so its logits, keys, values and features must be bitwise those of a token in
line. `test_exact_distribution.py` walks the loop, `test_kernels.py` tests the attention.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import edgespec
from checkpoints import byte_tokenizer, write_llama, write_noisy, write_t5
from depth import one_in
from eagle_checkpoints import write_eagle, write_target
from edgespec.artifact.graph_io import MAX_ROWS
from edgespec.artifact.manifest import read_manifest
from edgespec.core.distribution import one_hot
from edgespec.core.draft import Proposal
from edgespec.core.model import Candidate
from edgespec.costs.controller import Confident
from edgespec.costs.cost_model import Costs
from edgespec.device.device import Device
from edgespec.device.kernels import SWITCH, installed_kernels
from edgespec.drafters.registry import costs_by_name
from edgespec.errors import EdgespecError
from edgespec.pair.opening import invariance_cache
from edgespec.pair.opening.runtime import measure_row_invariance, open_model
from edgespec_export.export_pair import export_pair

pytestmark = pytest.mark.skipif(installed_kernels() is None, reason="there are no kernels here")

TINY = {"vocab_size": 272, "head_size": 16}
PROMPTS = [list(prompt.encode()) for prompt in ("Candidates", "a", "next to the line", "…")]


def llama(folder):
    target = write_llama(
        folder / "target",
        **TINY,
        tokenizer=byte_tokenizer(272),
        kv_heads=1,
        tie_word_embeddings=True,
    )
    return target, write_noisy(target, folder / "draft", noise=0.2)


def t5(folder):
    target = write_t5(
        folder / "target",
        **TINY,
        tokenizer=byte_tokenizer(272, append_eos=True),
        tie_word_embeddings=True,
    )
    return target, write_noisy(target, folder / "draft", noise=0.2)


def eagle(folder):
    target = write_target(folder / "target", "llama")
    write_eagle(target, folder / "draft")
    return target, folder / "draft"


@pytest.fixture(scope="module", params=[llama, t5, eagle], ids=lambda write: write.__name__)
def folder(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("candidates")
    target, draft = request.param(folder)
    export_pair(
        str(target),
        str(draft),
        folder / "pair",
        target_formats=["fp32", "int8"],
        draft_formats=["fp32", "int8"],
        threads=1,
    )
    return folder / "pair"


def loaded(folder, format_="int8", **options):
    """With the costs of a large model: for one of this size, γ "auto" would not draft."""
    pair = edgespec.load(folder, threads=1, target_format=format_, draft_format=format_, **options)
    costs = Costs([1 + 0.02 * gamma for gamma in range(MAX_ROWS)], draft=0.02)
    pair.use_costs(costs_by_name(costs))
    return pair


@pytest.fixture(scope="module", params=["fp32", "int8"])
def pair(request, folder):
    return loaded(folder, request.param)


def without_candidates(monkeypatch, pair):
    monkeypatch.setattr(pair.target, "scores_candidates", False)


# --- texts -------------------------------------------------------------------------------------


@one_in(2)
@pytest.mark.parametrize("sampling", [{"temperature": 0.8, "top_p": 0.95}, {"temperature": 1.0}])
def test_a_sampled_text_is_the_plain_one_and_candidates_are_committed(pair, sampling):
    committed = 0
    for seed, prompt in enumerate(PROMPTS * 3):
        options = {"max_new_tokens": 48, "logprobs": True, "seed": seed, **sampling}
        plain = pair.generate(prompt, draft=False, **options)
        text = pair.generate(prompt, draft="model", **options)
        assert text.token_ids == plain.token_ids
        assert text.logprobs == plain.logprobs
        committed += text.stats.committed
    assert committed


@one_in(2)
@pytest.mark.parametrize("draft", ["model", "both"])
def test_a_greedy_text_is_the_plain_one_and_candidates_are_committed(pair, draft):
    committed = 0
    for prompt in PROMPTS:
        plain = pair.generate(prompt, draft=False, max_new_tokens=48, logprobs=True)
        text = pair.generate(prompt, draft=draft, max_new_tokens=48, logprobs=True)
        assert text.token_ids == plain.token_ids
        assert text.logprobs == plain.logprobs
        stats = text.stats
        assert stats.tokens == stats.target_calls + stats.accepted + stats.committed
        assert stats.candidates >= stats.committed
        committed += stats.committed
    assert committed


def test_candidates_never_cost_additional_calls(pair, monkeypatch):
    with_them = [pair.generate(p, draft="model", max_new_tokens=48) for p in PROMPTS]
    without_candidates(monkeypatch, pair)
    without = [pair.generate(p, draft="model", max_new_tokens=48) for p in PROMPTS]
    assert [t.token_ids for t in with_them] == [t.token_ids for t in without]
    assert all(text.stats.candidates == 0 for text in without)
    calls = [sum(text.stats.target_calls for text in texts) for texts in (with_them, without)]
    assert calls[0] < calls[1]


def test_where_no_candidate_is_scored_drafting_depends_on_the_tokens_alone(pair, monkeypatch):
    """Candidates that nobody scores would make the next token look more expensive than it is."""
    without_candidates(monkeypatch, pair)
    asked = []

    def should_continue(self, probability, rows):
        asked.append(rows)
        return True

    monkeypatch.setattr(Confident, "should_continue", should_continue)
    pair.generate(PROMPTS[0], draft="model", max_new_tokens=48)
    first, *others = asked
    assert first == 2
    assert all(rows in (2, before + 1) for before, rows in zip(asked, others, strict=False))


def test_an_emitted_candidate_counts_as_a_drafted_token(pair):
    chunks = pair.stream(PROMPTS[0], draft="model", max_new_tokens=48)
    drafted = sum(chunk.from_draft for chunk in chunks)
    stats = chunks.result.stats
    assert drafted == stats.accepted + stats.committed


class Everything:
    """A drafter whose first token is wrong and whose candidates are likely."""

    seconds = 0.0

    def __init__(self, tokens):
        self._tokens = tokens

    def begin(self, prompt):
        pass

    def propose(self, text, gamma, randomness):
        line = [0] * min(gamma, 2)
        candidates = [Candidate(0, token) for token in self._tokens] if line else []
        return Proposal(line, [one_hot(token) for token in line], candidates)


@one_in(3)
@pytest.mark.parametrize("rule", ["coupled", "token", "block"])
@pytest.mark.parametrize("sampling", [{}, {"temperature": 1.2, "top_k": 12, "seed": 3}])
def test_log_probabilities_are_the_targets_own_for_a_callers_draft(pair, rule, sampling):
    """Of a sampled text too: each token's distribution is the one after the tokens before it."""
    plain = pair.generate(PROMPTS[0], draft=False, max_new_tokens=40, **sampling)
    likely = list(dict.fromkeys(t for t in plain.token_ids if t))[:14]
    text = pair.generate(
        PROMPTS[0],
        draft=Everything(likely),
        gamma=2,
        rule=rule,
        max_new_tokens=40,
        logprobs=True,
        **sampling,
    )
    assert text.stats.committed
    logits = pair.target.score([pair.target.prefill(PROMPTS[0]), *text.token_ids[:-1]])
    rows = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    probabilities = rows[np.arange(len(rows)), text.token_ids] - np.log(np.exp(rows).sum(axis=1))
    np.testing.assert_allclose(text.logprobs, probabilities, rtol=0, atol=1e-12)


@pytest.mark.parametrize("stop", [1, 2, 5, 9])
def test_a_text_that_is_cut_within_a_round_is_cut_there(pair, stop):
    plain = pair.generate(PROMPTS[0], draft=False, max_new_tokens=stop)
    text = pair.generate(PROMPTS[0], draft="model", max_new_tokens=stop)
    assert text.token_ids == plain.token_ids


# --- the model ---------------------------------------------------------------------------------


def line_of(pair, count):
    """A prefilled prompt and tokens that follow it."""
    tokens = np.random.default_rng(5).integers(3, 272, count).tolist()
    return [pair.target.prefill(PROMPTS[2]), *tokens]


def test_after_a_committed_candidate_logits_and_cache_are_those_of_a_token_in_line(pair):
    target = pair.target
    line = line_of(pair, 12)
    start = target.length
    expected = target.score(line).copy()
    shown = None if target.features is None else target.features[: start + 13].copy()
    target.rewind(start)
    candidates = [Candidate(1, 9), Candidate(2, line[3]), Candidate(0, 8)]
    rows = target.score([*line[:3], 4, 5, 6], candidates).copy()
    np.testing.assert_array_equal(rows[:3], expected[:3])
    np.testing.assert_array_equal(rows[7], expected[3])
    target.rewind(start + 3)
    target.commit_candidate(1)
    assert target.length == start + 4
    np.testing.assert_array_equal(target.score(line[4:]), expected[4:])
    if shown is not None:
        np.testing.assert_array_equal(target.features[: start + 13], shown)


@pytest.mark.parametrize(
    ("length", "candidate", "words"),
    [
        (2, 0, "candidate 0 does not follow"),
        (4, 0, "candidate 0 does not follow"),
        (3, 1, "no candidate 1"),
        (3, -1, "no candidate -1"),
    ],
)
def test_a_candidate_is_committed_only_after_its_parent(pair, length, candidate, words):
    line = line_of(pair, 4)
    start = pair.target.length
    pair.target.score(line, [Candidate(2, 9)])
    pair.target.rewind(start + length)
    with pytest.raises(EdgespecError, match=words):
        pair.target.commit_candidate(candidate)


def test_a_candidate_of_an_earlier_call_cannot_be_committed(pair):
    line = line_of(pair, 4)
    start = pair.target.length
    pair.target.score(line, [Candidate(2, 9)])
    pair.target.rewind(start + 1)
    pair.target.score(line[1:3])
    with pytest.raises(EdgespecError, match="had no candidate 0"):
        pair.target.commit_candidate(0)


def test_the_room_for_candidates_is_bounded_by_the_call_and_the_cache(folder):
    manifest = read_manifest(folder)
    options = {"device": Device(1), "candidates": True}
    target = open_model(folder, manifest.target, "int8", capacity=20, **options)
    assert target.candidate_room(4) == MAX_ROWS - 4
    target.score([target.prefill([1]), *[1] * 9])
    assert target.candidate_room(4) == 6
    assert target.candidate_room(11) == 0
    narrow = open_model(folder, manifest.target, "int8", max_rows=6, **options)
    assert narrow.candidate_room(4) == 2
    alone = open_model(folder, manifest.target, "int8", device=Device(1))
    assert alone.candidate_room(4) == 0


def test_a_cache_that_is_full_ends_with_the_plain_text(folder):
    pair = loaded(folder, capacity=40)
    plain = pair.generate(PROMPTS[2], draft=False, ignore_eos=True)
    text = pair.generate(PROMPTS[2], draft="model", ignore_eos=True)
    assert text.token_ids == plain.token_ids
    assert text.finish_reason == plain.finish_reason == "capacity"


# --- which targets may score them -------------------------------------------------------------


@one_in(2)
def test_without_kernels_no_candidates_are_scored(folder, monkeypatch):
    monkeypatch.setenv(SWITCH, "0")
    pair = loaded(folder)
    assert pair.target.candidate_room(4) == 0
    text = pair.generate(PROMPTS[0], draft="model", max_new_tokens=40)
    assert text.stats.candidates == 0
    assert text.token_ids == pair.generate(PROMPTS[0], draft=False, max_new_tokens=40).token_ids


def test_a_target_that_is_not_exact_with_candidates_scores_none(folder, monkeypatch):
    known = invariance_cache.known_invariance
    monkeypatch.setattr(
        "edgespec.pair.opening.loading.invariance_here",
        lambda *given: dataclasses.replace(known(*given[:4]), candidates=False),
    )
    pair = loaded(folder)
    text = pair.generate(PROMPTS[0], draft="model", max_new_tokens=40)
    assert text.stats.drafted
    assert text.stats.candidates == 0


def cached_from_beside(model, monkeypatch):
    """Mutant: keys and values are those of the drafted token that the candidate replaces."""

    def commit_candidate(candidate):
        token, _ = model._candidates[candidate]
        model._append([token])

    monkeypatch.setattr(model, "commit_candidate", commit_candidate)


def behind_the_line(model, monkeypatch):
    """Mutant: candidates are scored in line, each after all rows before it."""
    score = model.score

    def in_line(tokens, candidates=()):
        start = model.length
        rows = score([*tokens, *(token for _, token in candidates)]).copy()
        model.rewind(start)
        score(tokens, candidates)
        return rows

    monkeypatch.setattr(model, "score", in_line)


@one_in(2)
@pytest.mark.parametrize("mutant", [None, cached_from_beside, behind_the_line])
def test_row_invariance_is_measured_with_candidates_too(folder, monkeypatch, mutant):
    def opened(*given, **how):
        model = open_model(*given, **how)
        if mutant:
            mutant(model, monkeypatch)
        return model

    monkeypatch.setattr("edgespec.pair.opening.runtime.open_model", opened)
    found = measure_row_invariance(folder, read_manifest(folder).target, "int8", Device(1))
    assert found.is_row_invariant
    assert found.candidates == (mutant is None)
