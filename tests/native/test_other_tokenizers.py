"""Claim: libedgespec runs drafts with another tokenizer: each text has Python's tokens, rounds and
numbers of drafted and accepted tokens, alone, in a batch, and in a transcript.

Of a target's tokens its draft has most; it spells each of the others with one to three of its own.
"""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import edgespec
from edgespec.artifact.manifest import read_manifest
from edgespec.drafters.token_intersection import TokenIntersection
from edgespec.errors import EdgespecError
from edgespec_export.export_pair import export_pair
from kinds_of_pairs import draft_vocabulary, write_draft_vocabulary
from looking_large import cost_alike, find_of_target, look_large
from native_library import NativeError, NativeModel
from native_texts import DRAFTS, librarys_texts, pythons_texts
from native_transcripts import transcribed
from whisper_checkpoints import write_whisper

PROMPTS = [[5, 60, 7, 33, 8, 9, 12], [6], list(range(30, 44)), [16, 20]]
LENGTH = {"max_new_tokens": 40, "ignore_eos": 1}
# γ of a default goes by guessed costs: the target here counts as not row-invariant.
WAYS = (
    {"gamma": 4},
    {"gamma": 6, "temperature": 0.8, "logprobs": 1},
    {"gamma": 3, "temperature": 1.0, "rule": "token"},
    {"gamma": 5, "temperature": 1.0, "rule": "block", "top_p": 0.9},
    {"temperature": 0.8, "top_k": 9},
    {},
)


@pytest.fixture(scope="module")
def measured(int8_folder, tmp_path_factory):
    """A pair whose target was found row-invariant."""
    folder = shutil.copytree(int8_folder, tmp_path_factory.mktemp("tokenizers") / "pair")
    write_draft_vocabulary(folder)
    return folder


@pytest.fixture(scope="module")
def folder(measured):
    folder = shutil.copytree(measured, measured.parent / "guessed")
    look_large(folder)
    cost_alike(folder)
    find_of_target(folder, is_row_invariant=False)
    return folder


@pytest.fixture(scope="module")
def pair(folder):
    return edgespec.load(folder, threads=1, allow_inexact=True)


@pytest.fixture(scope="module")
def model(built, folder):
    return NativeModel(folder, threads=1, allow_inexact=1)


@pytest.mark.parametrize("draft", DRAFTS)
def test_texts_rounds_and_drafted_tokens_are_pythons(model, pair, draft):
    accepted = 0
    for given in WAYS:
        expected, _ = pythons_texts(pair, PROMPTS, draft, given)
        assert librarys_texts(model, PROMPTS, draft, given) == expected, given
        accepted += sum(count for *_, count, _ in expected)
    assert accepted > 20


def has_no_beginning(monkeypatch):
    prompt = TokenIntersection.prompt

    def without(self, tokens, spans):
        self._begin = []
        return prompt(self, tokens, spans)

    monkeypatch.setattr(TokenIntersection, "prompt", without)


def spells_a_token_with_its_first_alone(monkeypatch):
    read = TokenIntersection.to_draft_ids
    monkeypatch.setattr(
        TokenIntersection,
        "to_draft_ids",
        lambda self, tokens: [read(self, [token])[0] for token in tokens],
    )


def proposes_the_drafts_own_ids(monkeypatch):
    of = TokenIntersection.distribution

    def own(self, process, logits):
        q = of(self, process, logits)
        drafts = np.array(self.to_draft_ids(q.tokens))
        order = np.argsort(drafts)
        return type(q)(drafts[order], q.probabilities[order])

    monkeypatch.setattr(TokenIntersection, "distribution", own)


MISTAKES = [
    has_no_beginning,
    spells_a_token_with_its_first_alone,
    proposes_the_drafts_own_ids,
]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_draft_that_reads_or_proposes_other_tokens_is_found(model, pair, mistake, monkeypatch):
    mistake(monkeypatch)
    assert any(
        librarys_texts(model, PROMPTS, "model", given)
        != pythons_texts(pair, PROMPTS, "model", given)[0]
        for given in WAYS
    )


def test_a_forked_or_saved_session_goes_on_alike(model, tmp_path):
    def the_rest(session):
        return session.rest(), session.rounds, session.accepted

    session, moments = model.session(), 0
    session.begin(PROMPTS[0], draft=1, gamma=5, seed=4, temperature=1.0, rule="block", **LENGTH)
    while not session.ending:
        session.rounds = session.accepted = 0
        fork = session.fork()
        session.save(tmp_path / "saved")
        expected = the_rest(session.fork())
        assert the_rest(fork) == expected
        assert the_rest(model.load_session(tmp_path / "saved")) == expected
        next(session.pieces(), None)
        moments += 1
    assert moments > 3


def test_answers_that_are_reused_have_the_bits_of_those_computed_again(measured, built):
    """Their positions in the draft's tokens move along."""
    model = NativeModel(measured, threads=1)
    session, prompt, answers = model.session(), [], []
    given = {"draft": 1, "gamma": 3, "temperature": 1.0, "max_new_tokens": 7, "ignore_eos": 1}
    for turn in range(3):
        prompt = [*prompt, *range(20 + turn, 28 + turn)]
        other = model.session()
        for one in (session, other):
            answer = one.text(prompt, answers=answers, seed=turn, logprobs=1, **given)
        assert (session.logprobs, session.accepted) == (other.logprobs, other.accepted)
        answers = [*answers, range(len(prompt) - 1, len(prompt) + len(answer) - 1)]
        prompt += answer


def test_texts_of_a_batch_are_those_alone(measured, built):
    model = NativeModel(measured, threads=1)
    given = {"draft": 1, "gamma": 3, "temperature": 1.0, **LENGTH}
    batch = model.batch(len(PROMPTS))
    numbers = [batch.add(prompt, seed=seed, **given) for seed, prompt in enumerate(PROMPTS)]
    batch.finish()
    for seed, (number, prompt) in enumerate(zip(numbers, PROMPTS, strict=True)):
        assert batch.made[number].tokens == model.session().text(prompt, seed=seed, **given)


CHANGES = {
    "no token": {"common": [[], []]},
    "not increasing": {"common": [[3, 1], [3, 1]]},
    "twice": {"common": [[1, 3], [3, 3]]},
    "a token that the target lacks": {"common": [[1, 10**6], [1, 3]]},
    "a token that the draft lacks": {"begin": [10**6]},
    "a negative one": {"begin": [-1]},
    "another number of tokens": {
        "spellings": [[token] for token in range(9)],
        "common": [[1], [1]],
    },
    "no spelling": {"spellings": []},
}


@pytest.mark.parametrize("change", CHANGES)
def test_maps_that_do_not_fit_are_refused_with_pythons_sentence(measured, built, tmp_path, change):
    folder = shutil.copytree(measured, tmp_path / "pair")
    size = read_manifest(folder).target.vocab_size
    write_draft_vocabulary(folder, {**draft_vocabulary(size), **CHANGES[change]})
    with pytest.raises(EdgespecError) as expected:
        edgespec.load(folder, threads=1)
    with pytest.raises(NativeError) as refused:
        NativeModel(folder, threads=1)
    assert str(refused.value) == str(expected.value)


def test_a_transcript_is_pythons(built, whisper_folder, tmp_path):
    """Its draft has tokens that the target lacks, and timestamps under other ids."""
    draft = write_whisper(tmp_path / "draft", more=30, decoder_layers=1)
    target = whisper_folder.parent / "target"
    formats = {"target_formats": ["int8"], "draft_formats": ["int8"]}
    export_pair(str(target), str(draft), tmp_path / "pair", threads=1, **formats)
    pair = edgespec.load(tmp_path / "pair", threads=1)
    model = NativeModel(tmp_path / "pair", threads=1)
    sound = (0.1 * np.random.default_rng(3).standard_normal(5 * 16000)).astype(np.float32)
    for sampling in ({"temperature": 0.0}, {"temperature": 0.8, "seed": 3}):
        given = {"draft": "model", "gamma": 3, "use_previous": True, **sampling}
        expected, found = pair.transcribe(sound, **given), transcribed(model, sound, **given)
        assert [one.token_ids for one in found.segments] == [
            one.token_ids for one in expected.segments
        ]
        assert (found.drafted, found.accepted) == (expected.stats.drafted, expected.stats.accepted)
        assert found.drafted > 100
