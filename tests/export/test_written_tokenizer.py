"""Claim: a pair's tokenizer.json is the checkpoint's tokenizer in every part, and its merges are
parsed fast where that form says the same."""

from __future__ import annotations

import json

import pytest
from tokenizers import Tokenizer, models

from edgespec_export.checkpoint.tokenizer.written_tokenizer import written_tokenizer
from tokenizers_of_kinds import KINDS, of_kind


@pytest.mark.parametrize("name", KINDS)
def test_parts_are_those_of_the_checkpoint(name, tmp_path):
    tokenizer = of_kind(name, tmp_path)
    text = written_tokenizer(tokenizer)
    assert Tokenizer.from_str(text).to_str() == tokenizer.to_str()
    tokens = [token for token in json.loads(text)["model"]["vocab"] if isinstance(token, str)]
    assert tokens == sorted(tokens)


@pytest.mark.parametrize(
    ("pieces", "merge"),
    [
        pytest.param(("a", "b"), "a b", id="one string"),
        pytest.param(("a ", "b"), ["a ", "b"], id="a space"),
        pytest.param(("a", " b"), ["a", " b"], id="a space in the second"),
        pytest.param(("#versions", "b"), ["#versions", "b"], id="like a file's first line"),
        pytest.param(("b", "#version"), "b #version", id="like it, but second"),
    ],
)
def test_merges_are_one_string_where_that_is_the_same(pieces, merge):
    first, second = pieces
    vocabulary = {first: 0, second: 1, first + second: 2, "ü": 3}
    tokenizer = Tokenizer(models.BPE(vocabulary, [pieces]))
    text = written_tokenizer(tokenizer)
    assert json.loads(text)["model"]["merges"] == [merge]
    assert Tokenizer.from_str(text).to_str() == tokenizer.to_str()
    assert "ü" in text
