"""Claim: beam search finds what transformers' finds, and all texts where no beam is left out."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest

import edgespec
from depth import one_in
from edgespec.core.requests import Score
from edgespec.device.kernels import installed_kernels
from edgespec.errors import EdgespecError
from edgespec.scheduler.beam_search import beam_search
from table_batch import TableBatch, TableSequence

needs_kernels = pytest.mark.skipif(installed_kernels() is None, reason="needs kernels")

MODELS = Path(__file__).parents[2] / "models"
END = 2
SENTENCES = [
    "The file could not be opened because it was removed.",
    "GNOME development IDE - data files",
    "Do you want to save the changes before closing?",
]


class LogitSequence(TableSequence):
    """A text of `LogitBatch`."""

    def prefill(self, prompt, assistant_spans=None):
        self.length = 0
        if prompt[:-1]:
            self.batch.compute([Score(self, prompt[:-1])])
        return prompt[-1]

    def copy(self, other, length):
        for index in range(length):
            self.batch.buffer[self.start + index] = self.batch.buffer[other.start + index]
        self.length = length


class LogitBatch(TableBatch):
    """Tokens 0 to 2 by a random table; END cannot come first."""

    def __init__(self, count, seed=0):
        super().__init__(self.logits)
        self.sequences = [LogitSequence(self, 100 * number) for number in range(count)]
        self._seed = seed

    def logits(self, context):
        return np.random.default_rng([self._seed, *context]).normal(size=3).astype(np.float32)

    def compute(self, requests):
        return [np.array(list(rows), np.float32) for rows in super().compute(requests)]


def every_text(batch, prompt, length):
    """log p of every text of at most `length` tokens that ended, or has all of them."""
    found = {}
    for count in range(1, length + 1):
        for tokens in itertools.product(range(3), repeat=count):
            if END in tokens[:-1] or (count < length and tokens[-1] != END):
                continue
            total = 0.0
            for index, token in enumerate(tokens):
                row = batch.logits((*prompt, *tokens[:index])).astype(np.float64)
                total += row[token] - math.log(np.exp(row).sum())
            found[tokens] = total
    return found


@pytest.mark.parametrize("length_penalty", [0.0, 1.0, 2.0, -0.5])
@pytest.mark.parametrize("seed", range(5))
def test_with_enough_beams_the_best_texts_of_all_are_found(length_penalty, seed):
    batch, length = LogitBatch(200, seed), 4
    found = beam_search(
        batch,
        [0, 1],
        beams=200,
        max_new_tokens=length,
        last_tokens=[END],
        length_penalty=length_penalty,
        early_stopping="never",
    )
    expected = every_text(batch, (0, 1), length)
    assert {beam.tokens for beam in found} == set(expected)
    for beam in found:
        assert beam.logprob == pytest.approx(expected[beam.tokens], abs=1e-4)
        assert beam.score == pytest.approx(beam.logprob / len(beam.tokens) ** length_penalty)
    assert [beam.score for beam in found] == sorted((b.score for b in found), reverse=True)


class DoesNotCopy(LogitSequence):
    """Mutant: a beam's second continuation goes on in another beam's cache."""

    def copy(self, other, length):
        self.length = length


def test_a_cache_that_is_not_copied_is_caught():
    def best(kind):
        batch = LogitBatch(3, seed=1)
        batch.sequences = [kind(batch, 100 * number) for number in range(3)]
        for index in range(50):  # what earlier texts left
            batch.buffer.update({100 * number + index: 0 for number in range(3)})
        return beam_search(batch, [0], beams=3, max_new_tokens=6, last_tokens=[END])

    assert best(LogitSequence) != best(DoesNotCopy)


def cut_after_end(tokens, model):
    """Without the padding after a text."""
    end = model.config.eos_token_id
    return tokens[: tokens.index(end) + 1] if end in tokens else tokens


@one_in(2)
@needs_kernels
@pytest.mark.parametrize("early_stopping", [True, False, "never"])
@pytest.mark.parametrize("length_penalty", [1.0, 0.2])
def test_a_translation_is_that_of_transformers(pair, early_stopping, length_penalty):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(MODELS / "en-de-target").eval()
    for sentence in SENTENCES:
        source = pair.encode(sentence)
        with torch.no_grad():
            theirs = model.generate(
                torch.tensor([source]),
                num_beams=4,
                num_return_sequences=4,
                max_new_tokens=24,
                do_sample=False,
                early_stopping=early_stopping,
                length_penalty=length_penalty,
                output_scores=True,
                return_dict_in_generate=True,
            )
        ours = pair.beam_search(
            sentence,
            num_beams=4,
            max_new_tokens=24,
            early_stopping=early_stopping,
            length_penalty=length_penalty,
        )
        expected = [cut_after_end(row[1:].tolist(), model) for row in theirs.sequences]
        assert [beam.token_ids for beam in ours] == expected
        scores = theirs.sequences_scores.tolist()
        assert [beam.score for beam in ours] == pytest.approx(scores, rel=5e-3)


@needs_kernels
def test_one_beam_is_greedy(pair):
    (beam,) = pair.beam_search(SENTENCES[0], num_beams=1, max_new_tokens=30)
    assert beam.text == pair.generate(SENTENCES[0], max_new_tokens=30).text


@needs_kernels
def test_an_earlier_search_leaves_no_trace(pair):
    alone = pair.beam_search(SENTENCES[1], max_new_tokens=20)
    pair.beam_search(SENTENCES[0], max_new_tokens=20)
    assert pair.beam_search(SENTENCES[1], max_new_tokens=20) == alone


@needs_kernels
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"num_beams": 0}, "num_beams is 0; give a whole number from 1 to 64"),
        ({"num_beams": 65}, "num_beams is 65"),
        ({"length_penalty": "x"}, "length_penalty is 'x'; give a number"),
        ({"early_stopping": 3}, "early_stopping is 3; give True, False or 'never'"),
        ({"max_new_tokens": 0}, "max_new_tokens is 0"),
    ],
)
def test_bad_options_are_one_line(pair, wrong, said):
    with pytest.raises(edgespec.UsageError, match=said):
        pair.beam_search(SENTENCES[0], **wrong)


def test_without_kernels_beams_are_refused(pair, monkeypatch):
    monkeypatch.setattr(pair.target, "shares_calls", False)
    with pytest.raises(EdgespecError, match="install the kernels"):
        pair.beam_search(SENTENCES[0])
