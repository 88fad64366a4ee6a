"""Claim: a speculative text has the distribution of a plain one.

Every branch of the shipped loop and of its drafters is walked on small tables, with each outcome of
each draw; the probabilities of the walks add up to those of the texts. Planted mistakes are found.
"""

from __future__ import annotations

import ctypes
import itertools

import numpy as np
import pytest

TOKENS, END = 4, 2
P = np.array([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.25, 0.25, 0.5]], np.float32)
DRAFTS = {
    "near": np.array([[0.4, 0.4, 0.2], [0.3, 0.4, 0.3], [0.2, 0.2, 0.6]], np.float32),
    "equal": P,
    "opposite": np.array([[0.05, 0.05, 0.9], [0.8, 0.1, 0.1], [0.6, 0.3, 0.1]], np.float32),
    "disjoint": np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]], np.float32),
}
MISTAKES = ("accepts all", "corrects from p", "takes the row before", "keeps one less")


def walked(hooks, rule, p, q, gamma, drafter="model") -> tuple[np.ndarray, int]:
    """The probability of each text, [3] * TOKENS, and the number of walks."""
    hooks.edgespec_hook_walk.restype = ctypes.c_int64
    texts = np.zeros(len(p) ** TOKENS)
    with np.errstate(divide="ignore"):
        tables = [np.log(table).astype(np.float32) for table in (p, q)]
    arrays = [array.ctypes.data_as(ctypes.c_void_p) for array in (*tables, texts)]
    numbers = [ctypes.c_int64(value) for value in (gamma, TOKENS, len(p), END)]
    walks = hooks.edgespec_hook_walk(rule, drafter.encode(), *numbers, *arrays)
    return texts, walks


def product(p) -> np.ndarray:
    """The same, multiplied out; after the end a text is filled up with it."""
    texts = []
    for text in itertools.product(range(len(p)), repeat=TOKENS):
        chance, latest, ended = 1.0, 0, False
        for token in text:
            chance *= float(token == END) if ended else float(p[latest, token])
            latest, ended = token, ended or token == END
        texts.append(chance)
    return np.array(texts)


@pytest.fixture(scope="module")
def plain(hooks):
    return walked(hooks, None, P, P, 0)[0]


def test_plain_texts_have_the_tables_distribution(plain):
    np.testing.assert_allclose(plain, product(P), atol=1e-7)


@pytest.mark.parametrize("gamma", [0, 1, 2, 3, 5])
@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("rule", ["token", "block"])
def test_speculative_texts_have_the_plain_distribution(hooks, plain, rule, draft, gamma):
    texts, walks = walked(hooks, rule.encode(), P, DRAFTS[draft], gamma)
    np.testing.assert_allclose(texts, plain, atol=1e-6)
    assert walks > 20


@pytest.mark.parametrize("rule", ["token", "block"])
def test_texts_with_lookup_have_the_plain_distribution(hooks, plain, rule):
    texts, walks = walked(hooks, rule.encode(), P, P, 3, "lookup")
    np.testing.assert_allclose(texts, plain, atol=1e-6)
    assert walks > 20


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("rule", ["token", "block"])
def test_texts_with_lookup_beside_a_model_have_the_plain_distribution(hooks, plain, rule, draft):
    texts, walks = walked(hooks, rule.encode(), P, DRAFTS[draft], 3, "both")
    np.testing.assert_allclose(texts, plain, atol=1e-6)
    assert walks > 20


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("rule", ["token", "block"])
def test_drafts_that_end_where_the_draft_is_unsure_change_no_text(hooks, plain, rule, draft):
    texts, walks = walked(hooks, rule.encode(), P, DRAFTS[draft], 3, "confident model")
    np.testing.assert_allclose(texts, plain, atol=1e-6)
    assert walks > 20


def test_a_draft_that_ends_by_the_token_it_drew_is_found(hooks, plain):
    texts, _ = walked(hooks, b"token", P, DRAFTS["near"], 3, "peeking model")
    assert abs(texts - plain).max() > 1e-3


@pytest.mark.parametrize("gamma", [1, 2, 3])
@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("rule", ["token", "block"])
def test_candidates_change_no_text(hooks, plain, rule, draft, gamma):
    texts, walks = walked(hooks, rule.encode(), P, DRAFTS[draft], gamma, "candidates")
    np.testing.assert_allclose(texts, plain, atol=1e-6)
    assert walks > 20


def test_a_candidate_whose_row_is_another_is_found(hooks, plain):
    texts, _ = walked(hooks, b"token", P, DRAFTS["opposite"], 3, "misread candidates")
    assert abs(texts - plain).max() > 1e-3


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found(hooks, plain, mistake):
    texts, _ = walked(hooks, mistake.encode(), P, DRAFTS["near"], 3)
    assert abs(texts - plain).max() > 1e-3
