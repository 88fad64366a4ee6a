"""Claim: libedgespec runs models with recurrent layers: texts, rounds and log-probabilities are
Python's, alone and in shared calls, and states survive rewinds, forks and files.

Tiny random Qwen3.5s; one drafts with the head in its checkpoint, one with another model that has
states.
"""

from __future__ import annotations

import numpy as np
import pytest

import edgespec
from depth import one_in
from edgespec.artifact.manifest import read_manifest
from edgespec_runtimes.ort import recurrent_states
from edgespec_runtimes.ort.recurrent_states import RecurrentStates, Step
from kinds_of_pairs import export_recurrent
from looking_large import cost_alike
from native_library import NativeModel
from native_texts import DRAFTS, librarys_texts, pythons_texts

TEXT = [int(token) for token in np.random.default_rng(1).integers(3, 272, size=300)]
# A text that goes on, one whose end is another, one whose middle is, a long one, and a beginning.
PROMPTS = [
    TEXT[:40],
    TEXT[:70],
    [*TEXT[:60], *TEXT[100:110]],
    [*TEXT[:20], *TEXT[90:100]],
    TEXT,
    [*TEXT[:190], *TEXT[:9]],
]
WAYS = (
    {"gamma": 4},
    {"gamma": 6, "temperature": 0.8},
    {"gamma": 16, "temperature": 1.0, "rule": "token"},
    {"gamma": 3, "temperature": 0.7, "rule": "block", "logprobs": 1},
)
TOKENS = {"max_new_tokens": 20, "ignore_eos": 1}


@pytest.fixture(scope="module", params=["own head", "another model"])
def folder(request, tmp_path_factory):
    return export_recurrent(request.param, tmp_path_factory.mktemp("recurrent"))


@pytest.fixture(scope="module")
def pair(folder):
    cost_alike(folder)
    return edgespec.load(folder, threads=1)


@pytest.fixture(scope="module")
def model(built, pair, folder):
    return NativeModel(folder, threads=1)


@pytest.mark.parametrize("draft", DRAFTS)
def test_texts_rounds_and_drafted_tokens_are_pythons(model, pair, draft):
    """Each prompt rewinds what the one before left in the caches."""
    accepted = 0
    for given in WAYS:
        expected, _ = pythons_texts(pair, PROMPTS, draft, given)
        assert librarys_texts(model, PROMPTS, draft, given) == expected, given
        accepted += sum(count for *_, count, _ in expected)
    assert accepted > 5


def test_plain_texts_are_pythons(model, pair):
    session = model.session()
    for prompt in PROMPTS:
        given = {"temperature": 1.0, "seed": 2}
        expected = pair.generate(prompt, draft=False, max_new_tokens=20, ignore_eos=True, **given)
        assert session.text(prompt, draft=0, **TOKENS, **given) == list(expected.token_ids)


def conversation(session, draft):
    """Log-probabilities and accepted tokens of turns that go on, whose beginning is edited, and
    whose last turns are taken back."""
    found = []
    for prompt in (*PROMPTS, *reversed(PROMPTS)):
        given = {"draft": draft, "gamma": 8, "temperature": 1.0, "logprobs": 1, "seed": len(prompt)}
        tokens = session.text(prompt, answers=[], **TOKENS, **given)
        found.append((tokens, session.logprobs, session.accepted))
    return found


class Fresh:
    """A session of its own for each text."""

    def __init__(self, model):
        self.model = model

    def text(self, *args, **given):
        self.session = self.model.session()
        return self.session.text(*args, **given)

    logprobs = property(lambda self: self.session.logprobs)
    accepted = property(lambda self: self.session.accepted)


@pytest.mark.parametrize("draft", [0, 1])
def test_what_is_kept_has_the_bits_of_what_is_computed_again(model, draft):
    assert conversation(model.session(), draft) == conversation(Fresh(model), draft)


@pytest.mark.parametrize("draft", [0, 1])
def test_an_answer_whose_end_is_edited_is_computed_again_as_before(model, draft):
    """So far before its end that no states are kept there."""

    def turns(session):
        prompt, found = PROMPTS[0], []
        for kept in (70, 45, 3):
            given = {"draft": draft, "gamma": 5, "temperature": 1.0, "logprobs": 1, "seed": kept}
            answer = session.text(prompt, max_new_tokens=120, ignore_eos=1, **given)
            edited = [*prompt, *answer[:kept], *TEXT[200:203]]
            answers = [range(len(prompt) - 1, len(prompt) + kept - 1)]
            session.text(edited, answers=answers, **TOKENS, **given)
            found.append((answer, session.logprobs))
        return found

    assert turns(model.session()) == turns(Fresh(model))


def the_rest(session):
    return session.rest(), session.ending, session.rounds, session.accepted, session.logprobs


@pytest.mark.parametrize("given", [{"gamma": 4}, {"gamma": 5, "temperature": 1.0}], ids=str)
def test_a_forked_or_saved_session_goes_on_alike(model, tmp_path, given):
    session = model.session()
    session.begin(PROMPTS[4], seed=4, draft=1, logprobs=1, **TOKENS, **given)
    moments = 0
    while not session.ending:
        session.rounds = session.accepted = 0
        session.logprobs = []
        fork = session.fork()
        session.save(tmp_path / "saved")
        expected = the_rest(session.fork())
        assert the_rest(fork) == expected
        assert the_rest(model.load_session(tmp_path / "saved")) == expected
        next(session.pieces(), None)
        moments += 1
    assert moments > 3


@pytest.mark.parametrize("given", [{"draft": 0}, *({"draft": 1, **way} for way in WAYS)], ids=str)
def test_texts_of_a_batch_are_those_alone(model, given):
    batch, session = model.batch(3), model.session()
    prompts = [*PROMPTS, *reversed(PROMPTS)]  # later ones begin with what the caches hold
    for seed, prompt in enumerate(prompts):
        batch.add(prompt, seed=seed, **TOKENS, **given)
        if seed % 3 == 2:
            batch.finish()
    for number, text in batch.made.items():
        assert text.error is None, text.error
        expected = session.text(prompts[number], seed=number, **TOKENS, **given)
        assert (text.tokens, text.logprobs) == (expected, session.logprobs)
    assert len(batch.made) == len(prompts)


def test_the_estimate_counts_states(model, folder):
    """They do not grow with the capacity."""
    manifest = read_manifest(folder)
    models = [manifest.target, manifest.draft]
    numbers = sum(6 * kept.state + 64 * kept.row for one in models for kept in one.states)
    small, large = (model.estimate(folder, capacity=size)[1] for size in (32, 64))
    assert 2 * small - large == 4 * numbers > 0


# --- mutants --------------------------------------------------------------------------------------


def states_of_dropped_tokens(monkeypatch):
    def kept(self, length):
        for slot in self._slots:
            slot.length = min(slot.length, length)
        self._recent.rewind(length)

    monkeypatch.setattr(RecurrentStates, "rewind", kept)
    monkeypatch.setattr(recurrent_states, "_certain", lambda rows, count, certain: count)


def states_of_a_position_later(monkeypatch):
    numbers = Step.numbers.fget

    def late(step):
        *slots, state_length, kept = numbers(step)
        return *slots, max(0, state_length - 1), kept

    monkeypatch.setattr(Step, "numbers", property(late))


@one_in(2)
@pytest.mark.parametrize("mistake", [states_of_dropped_tokens, states_of_a_position_later])
def test_a_mistake_with_states_is_found(model, folder, mistake, monkeypatch):
    mistake(monkeypatch)
    pair = edgespec.load(folder, threads=1)
    expected, _ = pythons_texts(pair, PROMPTS, "model", WAYS[1])
    assert librarys_texts(model, PROMPTS, "model", WAYS[1]) != expected
