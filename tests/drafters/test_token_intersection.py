"""Claim: a draft with another tokenizer proposes only tokens that both have, reads all others as
tokens of its own, and never changes the target's distribution."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest

from branches import exact_distribution
from depth import one_in
from edgespec.core.decode import decoded, speculate
from edgespec.core.distribution import Distribution
from edgespec.core.distribution_options import Sampling
from edgespec.core.draft import proposed
from edgespec.core.randomness import Seeded
from edgespec.core.requests import computed
from edgespec.core.sampling import SamplingProcessor
from edgespec.core.verification import block_rule, token_rule
from edgespec.costs.controller import Fixed
from edgespec.drafters.model_drafter import ModelDrafter
from edgespec.drafters.token_intersection import TokenIntersection
from edgespec.drafters.vocabulary_map import read_vocabulary
from edgespec.errors import EdgespecError
from tables import TableModel, as_distribution, fractions, varying

# Target tokens 1, 3 and 4 are the draft's 5, 0 and 2; the others are spelled.
MAPS = {
    "common": [[1, 3, 4], [5, 0, 2]],
    "spellings": [[4, 4], [5], [1, 3, 4], [0], [2]],
    "begin": [3],
}
BOTH = TokenIntersection(MAPS["common"], MAPS["spellings"], MAPS["begin"], 6)


class CountingModel:
    """Logits after a token count up from it; keeps what it read."""

    vocab_size, capacity, seconds = 6, 64, 0.0

    def __init__(self):
        self.tokens: list[int] = []
        self.read: list[list[int]] = []

    @property
    def length(self):
        return len(self.tokens)

    valid_length = length

    def prefill(self, prompt, assistant_spans=None):
        self.tokens, self.assistant_spans = list(prompt[:-1]), assistant_spans
        return prompt[-1]

    def score(self, tokens):
        self.tokens += tokens
        self.read.append(list(tokens))
        return np.array([np.roll(np.arange(6.0), token) for token in tokens], np.float32)

    def rewind(self, length):
        assert length <= len(self.tokens)
        del self.tokens[length:]


def test_every_token_of_the_target_is_read_as_the_drafts_spelling():
    assert BOTH.to_draft_ids([2, 1, 0]) == [1, 3, 4, 5, 4, 4]
    assert BOTH.to_target_ids([5, 2, 1]) == [1, 4, -1]


def test_a_prompt_begins_as_the_drafts_texts_do_and_its_answers_move_along():
    ids, assistant_spans = BOTH.prompt([1, 2, 3, 0], [range(1, 3), range(3, 4)])
    assert ids == [3, 5, 1, 3, 4, 0, 4, 4]
    assert assistant_spans == [range(2, 6), range(6, 8)]


def test_the_common_tokens_share_the_whole_probability():
    logits = np.log(np.array([0.1, 0.5, 0.3, 0.01, 0.01, 0.2], np.float32))
    q = BOTH.distribution(SamplingProcessor(Sampling(temperature=1.0)), logits)
    assert q.tokens.tolist() == [1, 3, 4]
    np.testing.assert_allclose(q.probabilities, [0.2 / 0.6, 0.1 / 0.6, 0.3 / 0.6], rtol=1e-6)


def test_the_best_common_token_is_drafted_greedily():
    logits = np.array([1, 9, 3, 9, 9, 2], np.float32)
    assert BOTH.distribution(
        SamplingProcessor(Sampling(temperature=0.0)), logits
    ).tokens.tolist() == [4]


def test_the_cache_is_rewound_to_where_the_spelled_texts_part():
    """A rejected token's position is dropped, whatever number of positions the correction has."""
    model = CountingModel()
    drafter = ModelDrafter(model, SamplingProcessor(Sampling(temperature=0.0)), BOTH)
    drafter.begin([1, 2, 3])
    text = [3]
    generator = np.random.default_rng(0)
    for _ in range(20):
        proposal = computed(proposed(drafter, text, 3, Seeded(0)))
        accepted = int(generator.integers(len(proposal.tokens) + 1))
        text = [*text, *proposal.tokens[:accepted], int(generator.integers(5))]
        reference = CountingModel()
        other = ModelDrafter(reference, SamplingProcessor(Sampling(temperature=0.0)), BOTH)
        other.begin([1, 2, 3])
        if len(BOTH.to_draft_ids(text)) > 40:
            break
        assert computed(proposed(other, text, 3, Seeded(0))) == computed(
            proposed(drafter, text, 3, Seeded(0))
        )
        assert model.tokens == reference.tokens


# --- the distribution ----------------------------------------------------------------------------

# Targets of three tokens, drafts of four: target 0 and 2 are the draft's 3 and 1.
SMALL = {"common": ([0, 2], [3, 1]), "spellings": [[3], [0, 2], [1]], "begin": [2]}
P = varying([fractions(5, 3, 2), fractions(1, 1, 1), fractions(2, 7, 1)])
Q = varying([fractions(4, 3, 3, 2), fractions(1, 2, 1, 8), fractions(1, 1, 1, 0)], stride=2)


def renormalized(row):
    """The distribution in proportion to a row of a table; uniform where nothing is left."""
    total = sum(row)
    weights = [weight / total for weight in row] if total else [Fraction(1, len(row))] * len(row)
    return as_distribution(np.array(weights, dtype=object))


class WholeVocabulary(TokenIntersection):
    """Mutant: q is a token's share of the draft's whole vocabulary, not of the common tokens."""

    def distribution(self, process, logits):
        q = super().distribution(process, logits)
        return Distribution(
            q.tokens, np.array([logits[self.to_draft_ids([t])[0]] for t in q.tokens])
        )


def text_distribution(vocabulary_class, rule, gamma):
    def run(randomness):
        vocabulary = vocabulary_class(**SMALL, draft_size=4)
        rounds = decoded(
            speculate(
                TableModel(P),
                ModelDrafter(TableModel(Q, vocab_size=4), renormalized, vocabulary),
                [0],
                process=as_distribution,
                rule=rule,
                gamma=Fixed(gamma),
                randomness=randomness,
                max_new_tokens=4,
                ends=lambda token: False,
            )
        )
        return tuple(token for round_ in rounds for token in round_.tokens)

    return exact_distribution(run)


def plain_distribution():
    texts = {(): Fraction(1)}
    for _ in range(4):
        texts = {
            (*text, token): probability * conditional
            for text, probability in texts.items()
            for token, conditional in enumerate(P((0, *text)))
            if conditional
        }
    return texts


@one_in(2)
@pytest.mark.parametrize("rule", [token_rule, block_rule])
@pytest.mark.parametrize("gamma", [1, 2, 3])
def test_the_text_has_the_targets_distribution(gamma, rule):
    assert text_distribution(TokenIntersection, rule, gamma) == plain_distribution()


@pytest.mark.parametrize("rule", [token_rule, block_rule])
def test_a_draft_that_reports_another_q_is_caught(rule):
    assert text_distribution(WholeVocabulary, rule, 2) != plain_distribution()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"common": [[], []]}, "do not increase"),
        ({"common": [[3, 1, 4], [0, 5, 2]]}, "do not increase"),
        ({"common": [[1, 3, 5], [5, 0, 2]]}, "the target lacks"),
        ({"common": [[1, 3, 4], [5, 0, 0]]}, "twice"),
        ({"common": [[1, 3, 4], [6, 0, 2]]}, "the draft lacks"),
        ({"common": [[1, 3, 4], [5, 0]]}, "missing"),
        ({"begin": [6]}, "the draft lacks"),
        ({"spellings": [[4], [5], [], [0], [2]]}, "no spelling"),
        ({"spellings": [[4], [5, 5], [1], [0], [2]]}, "spelled with others"),
        ({"spellings": [[4], [5], [6], [0], [2]]}, "the draft lacks"),
        ({"spellings": [[4], [5], [1], [0], [2], [1]]}, "a target of 6 and a draft of 6"),
        ({"begin": None}, "damaged"),
    ],
)
def test_maps_that_do_not_fit_are_refused_in_one_line(change, words, tmp_path):
    file = tmp_path / "draft_vocabulary.json"
    file.write_text(json.dumps(MAPS))
    assert read_vocabulary(file, 5, 6).to_draft_ids([2]) == [1, 3, 4]
    file.write_text(json.dumps(MAPS | change))
    with pytest.raises(EdgespecError, match=words) as error:
        read_vocabulary(file, 5, 6)
    assert "\n" not in str(error.value)


def test_a_sparse_distribution_of_common_tokens_has_the_targets_ids():
    probabilities = np.array([0.25, 0.75])
    process = lambda row: Distribution(np.array([0, 2]), probabilities)  # noqa: E731
    assert BOTH.distribution(process, np.zeros(6, np.float32)).tokens.tolist() == [1, 4]
