"""Claim: sequences of a model with recurrent layers share calls, and each row has the bits that it
has in a model that computes its sequence alone and drops nothing.

A tiny random Qwen3.5. States of another sequence, states that are not rewound, and rows that are
dropped though they were kept as certain, are planted.
"""

from __future__ import annotations

import numpy as np
import pytest

import edgespec
from checkpoints import write_noisy
from depth import DEEP, deep
from edgespec.artifact.manifest import read_manifest
from edgespec.core.requests import Read, Score
from edgespec.device.device import HERE, Device
from edgespec.device.kernels import kernels_for
from edgespec.pair.opening.runtime import open_model
from edgespec_export.export_pair import export_pair
from edgespec_runtimes.ort import recurrent_states
from edgespec_runtimes.ort.recurrent_states import RecurrentStates, Step
from qwen35_checkpoints import write_qwen35

KERNELS = kernels_for(HERE)
pytestmark = pytest.mark.skipif(KERNELS is None, reason="there are no kernels here")
START, END = 40, 230
RANDOM = np.random.default_rng(1)
TEXTS = [[int(token) for token in RANDOM.integers(3, 272, size=260)] for _ in range(3)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("qwen35")
    write_qwen35(folder / "target")
    write_noisy(folder / "target", folder / "draft", noise=0.1)
    out = folder / "pair"
    sources = str(folder / "target"), str(folder / "draft")
    formats, caches = ("int8",), ("fp32", "int8") if DEEP else ("fp32",)
    export_pair(
        *sources,
        out,
        target_formats=formats,
        draft_formats=formats,
        cache_formats=caches,
        measure=False,
        threads=1,
    )
    return out


def opened(folder, variant="int8"):
    exported = read_manifest(folder).target
    return open_model(folder, exported, variant, device=Device(1), min_rows=2, max_rows=17)


@pytest.fixture(scope="module")
def expected(folder):
    """The rows of each text from `START` on, of a model that drops nothing."""
    rows = []
    for text in TEXTS:
        model = opened(folder)
        model.prefill(text[: START + 1])
        rows.append([model.score(text[i : i + 5]).copy() for i in range(START, END, 5)])
    return [np.concatenate(each) for each in rows]


def wrong_rows(folder, expected, *, furthest=0, walks=24):
    """How many rows differ in calls that three sequences share, each of which drops some tokens.

    Args:
        furthest: positions that a second rewind goes back, at most; in every eighth call.
    """
    batch = opened(folder).make_batch(len(TEXTS), 256)
    for sequence, text in zip(batch.sequences, TEXTS, strict=True):
        for piece in sequence.reading(text[: START + 1]):
            batch.compute([piece])
    generator = np.random.default_rng(3)
    wrong, longest = 0, 0
    for walk in range(walks):
        requests, kept = [], []
        for sequence, text in zip(batch.sequences, TEXTS, strict=True):
            at = sequence.length
            stay, drop = (int(n) for n in generator.integers(0, 9, size=2))
            kept.append(min(stay, END - at))
            other = [int(token) for token in generator.integers(3, 272, size=drop + 1)]
            requests.append(Score(sequence, [*text[at : at + kept[-1]], *other]))
        order = generator.permutation(len(requests))
        answers = batch.compute([requests[index] for index in order])
        for answer, index in zip(answers, order, strict=True):
            sequence, stay = batch.sequences[index], kept[index]
            at = sequence.length - len(requests[index].tokens)
            rows = expected[index][at - START : at - START + stay]
            wrong += int((answer[:stay] != rows).any(axis=1).sum())
            sequence.rewind(at + stay)
            longest = max(longest, sequence.length)
            if furthest and walk % 8 == 7:
                sequence.rewind(max(START, sequence.length - int(generator.integers(furthest))))
    assert longest > START + 40
    return wrong


def test_rows_are_those_of_a_sequence_alone_that_dropped_nothing(folder, expected):
    assert wrong_rows(folder, expected) == 0


def test_positions_whose_states_are_lost_are_unread_again(folder, expected, monkeypatch):
    lost = []
    reach = RecurrentStates.reach

    def counted(self, length):
        lost.append(length - reach(self, length))
        return reach(self, length)

    monkeypatch.setattr(RecurrentStates, "reach", counted)
    assert wrong_rows(folder, expected, furthest=120, walks=40) == 0
    assert max(lost) > 0


def test_a_prompt_in_pieces_beside_other_sequences_is_the_prompt(folder, expected):
    """Pieces of 1 to 70 rows, in calls with rows of another sequence that drops them."""
    batch = opened(folder).make_batch(2, 256)
    reading, other = batch.sequences
    other.prefill(TEXTS[1][:8])
    at = 0
    for size in (3, 70, 1, 17, 18, 40):
        drafted = Score(other, TEXTS[1][7:12])
        batch.compute([Read(reading, TEXTS[0][at : at + size]), drafted])
        other.rewind(7)
        at += size
    (rows,) = batch.compute([Score(reading, TEXTS[0][at : at + 9])])
    np.testing.assert_array_equal(rows, expected[0][at - START : at - START + 9])


@pytest.mark.parametrize("length", [12, 90, 130])
def test_a_sequence_goes_on_from_anothers_beginning(folder, expected, length):
    batch = opened(folder).make_batch(2, 256)
    donor, heir = batch.sequences
    batch.compute([Read(donor, TEXTS[0][:90])])
    for at in range(90, 140, 10):
        batch.compute([Score(donor, TEXTS[0][at : at + 10])])
    batch.compute([Score(heir, TEXTS[1][:20])])
    heir.copy(donor, length)
    rest = TEXTS[0][length:150]
    batch.compute([Read(heir, rest), Score(donor, TEXTS[2][:5])])
    (rows,) = batch.compute([Score(heir, TEXTS[0][150:157])])
    np.testing.assert_array_equal(rows, expected[0][150 - START : 157 - START])


# --- mutants --------------------------------------------------------------------------------------


def _of_the_sequence_before(step):
    """Takes states from the slots of another sequence."""
    start, rows, taken, made, *lengths = numbers(step)
    other = (taken - recurrent_states.MOST_SLOTS - 1) % (3 * recurrent_states.MOST_SLOTS) + 1
    return start, rows, other if taken else taken, made, *lengths


def _states_of_dropped_tokens(self, length):
    """Slots keep their states, as if they were those of fewer positions."""
    for slot in self._slots:
        slot.length = min(slot.length, length)
    self._recent.rewind(length)


numbers = Step.numbers.fget


def test_states_of_another_sequence_are_found(folder, expected, monkeypatch):
    monkeypatch.setattr(Step, "numbers", property(_of_the_sequence_before))
    assert wrong_rows(folder, expected) > 50


def test_states_that_are_not_rewound_are_found(folder, expected, monkeypatch):
    monkeypatch.setattr(RecurrentStates, "rewind", _states_of_dropped_tokens)
    monkeypatch.setattr(recurrent_states, "_certain", lambda rows, count, certain: count)
    assert wrong_rows(folder, expected) > 50


# --- beams and texts ------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["int8", pytest.param("int8-cache-int8", marks=deep)])
def test_texts_that_share_calls_are_those_made_alone(folder, variant):
    pair = edgespec.load(folder, threads=1, target_format=variant, capacity=256)
    assert pair.shares_calls
    prompts = [TEXTS[n % 3][:size] for n, size in enumerate((1, 9, 100, 150, 101, 30))]
    for options in ({}, {"temperature": 1.0, "seed": 4}):
        given = {"max_new_tokens": 10, "logprobs": True, "ignore_eos": True, **options}
        together = pair.generate_many(prompts, texts=4, **given)
        for number, result in enumerate(together):
            own = given | ({"seed": 4 + number} if options else {})
            alone = pair.generate(prompts[number], **own)
            assert result.token_ids == alone.token_ids
            assert result.logprobs == alone.logprobs


def test_beams_have_the_probabilities_of_their_texts(folder):
    """Beams copy each other's states at every step."""
    pair = edgespec.load(folder, threads=1, target_format="int8", capacity=128)
    prompt = TEXTS[0][:90]
    beams = pair.beam_search(prompt, num_beams=4, max_new_tokens=12)
    assert len(beams) > 1
    model = opened(folder)
    for beam in beams:
        logits = model.score([model.prefill(prompt), *beam.token_ids[:-1]]).astype(np.float64)
        total = np.log(np.exp(logits - logits.max(-1, keepdims=True)).sum(-1)) + logits.max(-1)
        chosen = logits[np.arange(len(beam.token_ids)), beam.token_ids]
        assert abs((chosen - total).sum() - beam.logprob) < 1e-3
