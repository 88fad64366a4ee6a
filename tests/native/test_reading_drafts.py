"""Claim: libedgespec runs drafts that read more of their target than an EAGLE head does: each text
has Python's tokens, rounds and numbers of drafted and accepted tokens, and its session goes on
alike, forked or saved."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import edgespec
from depth import deep, one_in
from edgespec.drafters import registry
from edgespec.errors import EdgespecError
from edgespec_runtimes.ort.reading.ort_assistant import OrtAssistant
from edgespec_runtimes.ort.reading.ort_block import OrtBlock, _Transition
from edgespec_runtimes.ort.reading.ort_masked_block import OrtMaskedBlock
from edgespec_runtimes.ort.reading.ort_shared_encoder import OrtSharedEncoder
from kinds_of_pairs import READING, export_reading
from looking_large import cost_alike, find_of_target, look_large
from manifests import edit_manifest
from native_library import NativeError, NativeModel
from native_texts import DRAFTS, librarys_texts, pythons_texts

PROMPTS = [list(prompt.encode()) for prompt in ("Reading drafts", "a", "next to the line", "…")]
# γ of a default goes by guessed costs: the targets here count as not row-invariant.
WAYS = (
    {},
    {"gamma": 4},
    {"gamma": 6, "temperature": 0.8},
    {"temperature": 0.8, "top_p": 0.95},
    {"repetition_penalty": 1.2, "logprobs": 1},
    {"gamma": 3, "temperature": 1.0, "rule": "token"},
    {"temperature": 0.7, "rule": "block", "logprobs": 1},
    {"gamma": 6, "temperature": 2.0, "rule": "token"},
    {"temperature": 2.0},
)
LENGTH = {"max_new_tokens": 40, "ignore_eos": 1}


OFTEN = ("shared_encoder", "block", "dspark", "assistant")


@pytest.fixture(
    scope="module",
    params=[name if name in OFTEN else pytest.param(name, marks=deep) for name in READING],
)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def measured(kind, tmp_path_factory):
    """The folder of a pair whose target was found row-invariant."""
    folder = tmp_path_factory.mktemp("reading")
    return export_reading(kind, folder)


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
    assert accepted > 5


def reads_another_source(monkeypatch):
    read = OrtSharedEncoder._encoder_inputs

    def negated(self, prompt):
        (name, states), *_ = read(self, prompt).items()
        return {name: type(states).ortvalue_from_numpy(-states.numpy())}

    monkeypatch.setattr(OrtSharedEncoder, "_encoder_inputs", negated)


def is_always_sure(monkeypatch):
    for draft in (OrtBlock, OrtMaskedBlock):
        monkeypatch.setattr(draft, "confidence_after", lambda self, token: 1.0)


def adds_no_transition(monkeypatch):
    monkeypatch.setattr(_Transition, "added_to", lambda self, logits, token: logits[None])


def adds_the_transition_of_the_row_before(monkeypatch):
    after = OrtMaskedBlock._row_after
    monkeypatch.setattr(
        OrtMaskedBlock, "_row_after", lambda self, row, token: after(self, max(0, row - 1), token)
    )


def masks_are_another_token(monkeypatch):
    called = OrtMaskedBlock._called

    def masked(self, token, end):
        self._masks = [8] * len(self._masks)
        return called(self, token, end)

    monkeypatch.setattr(OrtMaskedBlock, "_called", masked)


def goes_on_as_a_model_does(monkeypatch):
    monkeypatch.setattr(
        registry, "_should_continue", lambda _, confident: confident.should_continue
    )


def takes_the_state_of_the_position_before(monkeypatch):
    after = OrtAssistant._logits_after

    def late(self, token, seen):
        own, self._target_features = (
            self._target_features,
            np.roll(self._target_features, 1, axis=0),
        )
        try:
            return after(self, token, seen)
        finally:
            self._target_features = own

    monkeypatch.setattr(OrtAssistant, "_logits_after", late)


def sees_a_position_less(monkeypatch):
    after = OrtAssistant._logits_after
    monkeypatch.setattr(
        OrtAssistant,
        "_logits_after",
        lambda self, token, seen: after(self, token, max(1, seen - 1)),
    )


OF_BLOCKS = [is_always_sure, goes_on_as_a_model_does]
MISTAKES = {
    "shared_encoder": [reads_another_source],
    "block": [*OF_BLOCKS, adds_no_transition],
    "dspark": [*OF_BLOCKS, adds_the_transition_of_the_row_before, masks_are_another_token],
    "assistant": [takes_the_state_of_the_position_before, sees_a_position_less],
}


@one_in(2)
def test_a_draft_that_computes_something_else_is_found(kind, model, pair):
    for mistake in MISTAKES.get(kind, []):
        with pytest.MonkeyPatch.context() as monkeypatch:
            mistake(monkeypatch)
            assert any(
                librarys_texts(model, PROMPTS, "model", given)
                != pythons_texts(pair, PROMPTS, "model", given)[0]
                for given in WAYS
            ), mistake


def the_rest(session):
    tokens = session.rest()
    return tokens, session.ending, session.rounds, session.accepted, session.logprobs


@one_in(2)
@pytest.mark.parametrize("given", [{}, {"gamma": 5, "temperature": 1.0, "rule": "block"}], ids=str)
def test_a_forked_or_saved_session_goes_on_alike(model, tmp_path, given):
    session = model.session()
    session.begin(PROMPTS[0], seed=4, draft=1, logprobs=1, **LENGTH, **given)
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


def test_a_text_that_does_not_use_the_draft_may_come_between(model):
    """What the draft has of the text before is of no use then; the session is forked all the
    same."""
    fresh, session = model.session(), model.session()
    given = {"draft": 1, "gamma": 4, "seed": 1, **LENGTH}
    expected = fresh.text(PROMPTS[2], **given), fresh.rounds, fresh.accepted
    session.text(PROMPTS[0], **given)
    session.begin(PROMPTS[1], draft=0, **LENGTH)
    plain = session.fork()
    assert plain.rest() == session.rest()
    for one in (session, plain, session.fork()):
        assert (one.text(PROMPTS[2], **given), one.rounds, one.accepted) == expected


def test_a_cancelled_text_leaves_nothing_behind(model):
    session = model.session()
    given = {"draft": 1, "gamma": 4, **LENGTH}
    expected = session.text(PROMPTS[2], **given), session.rounds, session.accepted
    for rounds in range(4):
        session.begin(PROMPTS[0], **given)
        for _ in range(rounds):
            next(session.pieces())
        session.cancel()
        with pytest.raises(NativeError) as cancelled:
            session.rest()
        assert cancelled.value.status == "cancelled"
        assert (session.text(PROMPTS[2], **given), session.rounds, session.accepted) == expected


def test_a_full_cache_ends_a_text_as_plain_decoding(folder, built):
    session = NativeModel(folder, threads=1, allow_inexact=1, capacity=40).session()
    plain = session.text(PROMPTS[2], draft=0, ignore_eos=1), session.ending
    assert (session.text(PROMPTS[2], draft=1, gamma=4, ignore_eos=1), session.ending) == plain
    assert session.ending == "capacity"


def test_answers_that_are_reused_have_the_bits_of_those_computed_again(kind, measured, built):
    if kind in ("shared_encoder", "t5_block"):
        return  # a source is no conversation
    model = NativeModel(measured, threads=1)
    session, prompt, answers = model.session(), [], []
    given = {"draft": 1, "gamma": 3, "logprobs": 1, "temperature": 1.0}
    given |= {"max_new_tokens": 7, "ignore_eos": 1}
    for turn in range(3):
        prompt = [*prompt, *range(20 + turn, 28 + turn)]
        other = model.session()
        for one in (session, other):
            answer = one.text(prompt, answers=answers, seed=turn, **given)
        assert (session.logprobs, session.accepted) == (other.logprobs, other.accepted)
        assert session.progress()[1] <= other.progress()[1]
        answers = [*answers, range(len(prompt) - 1, len(prompt) + len(answer) - 1)]
        prompt += answer


def test_a_batch_is_refused(measured, built):
    with pytest.raises(NativeError, match=r"the pair's draft .* one text in a call; make each"):
        NativeModel(measured, threads=1).batch(2)


def test_an_assistant_reads_the_format_of_its_targets_cache(kind, folder, built, tmp_path):
    """Whichever of its variants was asked for; where it has none such, both say so."""
    if kind != "assistant":
        return  # others do not read it
    formats = [*edgespec.load(folder, threads=1, allow_inexact=True).manifest.target.variants]
    assert len(formats) == 2
    for target in formats:
        given = {"target_format": target, "draft_format": formats[0], "threads": 1}
        pair = edgespec.load(folder, allow_inexact=True, **given)
        model = NativeModel(folder, allow_inexact=1, **given)
        assert (
            librarys_texts(model, PROMPTS, "model", WAYS[2])
            == pythons_texts(pair, PROMPTS, "model", WAYS[2])[0]
        )
    other = shutil.copytree(folder, tmp_path / "pair")

    def drop(manifest):
        manifest["draft"]["variants"].pop(formats[1])

    edit_manifest(other, drop)
    given = {"target_format": formats[1], "threads": 1}
    with pytest.raises(EdgespecError) as expected:
        edgespec.load(other, allow_inexact=True, **given)
    with pytest.raises(NativeError) as refused:
        NativeModel(other, allow_inexact=1, **given)
    assert str(refused.value) == str(expected.value)
