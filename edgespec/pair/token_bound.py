"""A lower bound of a text's tokens from its length, so that endless texts are refused at once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tokenizers import pre_tokenizers

from edgespec.errors import UsageError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["TokenBound"]

# Normalizers, and how many characters of a text may become one: composing joins up to four.
SHRINKS = {"Prepend": 1, "Replace": 1, "NFD": 1, "NFKD": 1, "NFC": 4, "NFKC": 4}


class TokenBound:
    """How many tokens a text has at least.

    A token of a BPE vocabulary has no more characters than its longest one, so a text has at least
    its length divided by that. White space is not counted: control tokens may swallow it.

    Args:
        tokenizer: of the pair.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def check(self, text: str, most: int) -> None:
        """Raises UsageError if a text certainly has more than so many tokens."""
        if len(text) <= most:  # most texts; reading the vocabulary takes long
            return
        longest = self._longest
        if longest is None or len(text) <= most * longest:
            return
        least = -(-sum(map(len, text.split())) // longest)
        if least > most:
            raise UsageError(
                f"the prompt has {len(text)} characters, at least {least} tokens, and the cache "
                f"holds {most}; shorten the prompt"
            )

    @cached_property
    def _longest(self) -> int | None:
        """The most characters that one token stands for; None if there is no limit."""
        settings: Mapping[str, Any] = json.loads(self._tokenizer.to_str())
        shrinks = _shrinks(settings["normalizer"])
        cuts = json.dumps(settings["pre_tokenizer"])
        removes = "Removed" in cuts or "CharDelimiterSplit" in cuts
        if settings["truncation"] or removes or shrinks is None or not self._keeps_all(settings):
            return None
        return shrinks * max(map(len, self._tokenizer.get_vocab()), default=1)

    def _keeps_all(self, settings: Mapping[str, Any]) -> bool:
        """Whether each character becomes a token or a part of one, and unknown ones are not fused
        to one token."""
        model, vocabulary = settings["model"], self._tokenizer.get_vocab()
        if model["type"] != "BPE":
            return False
        if model.get("byte_fallback") and "<0x41>" in vocabulary:
            return True
        if "ByteLevel" in json.dumps(settings["pre_tokenizer"]):
            return all(byte in vocabulary for byte in pre_tokenizers.ByteLevel.alphabet())
        return model.get("unk_token") is not None and not model.get("fuse_unk")


def _shrinks(normalizer: Mapping[str, Any] | None) -> int | None:
    """How many characters of a text may become one; None if any number."""
    if normalizer is None:
        return 1
    if normalizer["type"] == "Sequence":
        shrinks = 1
        for part in normalizer["normalizers"]:
            factor = _shrinks(part)
            if factor is None:
                return None
            shrinks *= factor
        return shrinks
    if normalizer["type"] == "Replace":
        pattern, content = normalizer["pattern"].get("String"), normalizer["content"]
        return 1 if pattern is not None and len(pattern) <= len(content) else None
    return SHRINKS.get(normalizer["type"])
