"""Claim: no text is refused for its length that has fewer tokens than are read, and an endless one
is refused before it is encoded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from checkpoints import byte_tokenizer, character_tokenizer
from depth import one_in
from edgespec.errors import UsageError
from edgespec.pair.prompt import PromptEncoder
from edgespec.pair.token_bound import TokenBound


def composing() -> Tokenizer:
    tokenizer = byte_tokenizer(272)
    tokenizer.normalizer = normalizers.NFC()
    return tokenizer


def fusing() -> Tokenizer:
    """Unknown characters become one token together."""
    return Tokenizer(models.BPE({"<unk>": 0, "a": 1}, [], unk_token="<unk>", fuse_unk=True))


def removing() -> Tokenizer:
    tokenizer = byte_tokenizer(272)
    byte_level = tokenizer.pre_tokenizer
    split = pre_tokenizers.Split("a", "removed")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
    return tokenizer


def stripping() -> Tokenizer:
    tokenizer = byte_tokenizer(272)
    tokenizer.normalizer = normalizers.Replace("aa", "a")
    return tokenizer


TOKENIZERS = {
    "bytes": byte_tokenizer(272),
    "characters": character_tokenizer(272),
    "composing": composing(),
    "fusing": fusing(),
    "removing": removing(),
    "stripping": stripping(),
}
BOUNDED = ("bytes", "composing")


@one_in(2)
@pytest.mark.parametrize("name", TOKENIZERS)
@given(
    text=st.text(st.sampled_from("ab \n\u0301\u1100\u1161"), max_size=300), most=st.integers(1, 40)
)
def test_no_text_that_fits_is_refused(name, text, most):
    tokenizer = TOKENIZERS[name]
    try:
        TokenBound(tokenizer).check(text, most)
    except UsageError:
        assert len(tokenizer.encode(text, add_special_tokens=False).ids) > most


@pytest.mark.parametrize("name", BOUNDED)
def test_an_endless_text_is_refused_before_it_is_encoded(name, monkeypatch):
    encode = PromptEncoder(TOKENIZERS[name], None)
    monkeypatch.setattr(
        "edgespec.pair.foreign.text_reader.TextReader.encodings",
        lambda *_: pytest.fail("the text was encoded"),
    )
    message = r"the prompt has 200000 characters, at least \d+ tokens, and the cache holds 96;"
    with pytest.raises(UsageError, match=message):
        encode("x" * 200_000, False, most=96)
