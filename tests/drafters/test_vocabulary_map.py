"""Claim: a draft with fewer tokens than its target gets and gives the right token ids."""

from __future__ import annotations

import json

import numpy as np
import pytest

from edgespec.core.distribution import Distribution, one_hot
from edgespec.drafters.vocabulary_map import SharedTokens, SomeTokens, read_vocabulary
from edgespec.errors import EdgespecError

SOME = SomeTokens([1, 4, 6], [0, 0, 2, 1, 1, 0, 2, 2])


def test_a_token_that_the_draft_lacks_is_replaced_by_another():
    assert SOME.to_draft_ids([4, 5, 6, 7]) == [1, 0, 2, 2]
    assert SharedTokens(3).to_draft_ids([0, 2, 3, 9]) == [0, 2, 0, 0]


def test_a_draft_may_read_more_tokens_than_it_proposes(tmp_path):
    file = tmp_path / "draft_vocabulary.json"
    file.write_text(json.dumps({"outputs": [1, 4, 6], "inputs": list(range(8))}))
    some = read_vocabulary(file, 8, 3, 8)
    assert some.to_draft_ids([7, 0]) == [7, 0]
    assert some.to_target_ids([2, 0]) == [6, 1]
    with pytest.raises(EdgespecError, match="inputs name tokens that the draft lacks"):
        read_vocabulary(file, 8, 3, 7)


@pytest.mark.parametrize("tokens", [(2, 0), [2, 0], np.array([2, 0])], ids=type)
def test_tokens_come_in_any_sequence(tokens):
    assert SOME.to_target_ids(tokens) == [6, 1]
    assert SOME.to_draft_ids(tokens) == [2, 0]


def test_the_drafts_distribution_is_over_the_targets_tokens():
    probabilities = np.array([0.25, 0.75])
    process = lambda row: Distribution(np.array([0, 2]), probabilities)  # noqa: E731
    distribution = SOME.distribution(process, np.zeros(3, np.float32))
    assert distribution.tokens.tolist() == [1, 6]
    assert distribution.probabilities is probabilities


def test_with_shared_ids_only_the_shared_columns_count():
    process = lambda row: one_hot(int(row.argmax()))  # noqa: E731
    distribution = SharedTokens(2).distribution(process, np.array([1, 2, 9], np.float32))
    assert distribution.tokens.tolist() == [1]


@pytest.mark.parametrize(
    ("maps", "words"),
    [
        ({"outputs": [1, 4, 4], "inputs": [0] * 8}, "do not increase"),
        ({"outputs": [], "inputs": [0] * 8}, "do not increase"),
        ({"outputs": [-1, 4, 6], "inputs": [0] * 8}, "do not increase"),
        ({"outputs": [1, 4, 8], "inputs": [0] * 8}, "that the target lacks"),
        ({"outputs": [1, 4, 6], "inputs": [3] * 8}, "that the draft lacks"),
        ({"outputs": [1, 4, 6]}, "inputs"),
        ([1, 2], "damaged"),
        ({"outputs": [1, 6], "inputs": [0] * 8}, "a target of 8 and a draft of 2 tokens"),
        ({"outputs": [1, 4, 6], "inputs": [0] * 9}, "a target of 9 and a draft of 3 tokens"),
        ({"outputs": ["a", "b", "c"], "inputs": [0] * 8}, "damaged"),
    ],
)
def test_maps_that_do_not_fit_are_refused_in_one_line(maps, words, tmp_path):
    file = tmp_path / "draft_vocabulary.json"
    file.write_text(json.dumps(maps))
    with pytest.raises(EdgespecError, match=words) as error:
        read_vocabulary(file, 8, 3)
    assert "\n" not in str(error.value)
