"""A tokenizer that reads texts: whatever it raises is one line, and Rust's panics are silent."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from edgespec.pair.foreign.quiet_panics import quiet_panics
from edgespec.pair.tokenizer import tokenizer_errors

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

__all__ = ["TextReader"]

REGEX = re.compile(rb'"Regex":"((?:[^"\\]|\\.)*)"')  # in a normalizer's JSON
# Letters and spaces, the last of them perhaps repeated: " {2,}", of every converted SentencePiece.
MATCHES_SOMETHING = re.compile(rb"[\w ]+(\{[1-9][0-9]*,?[0-9]*\})?")


class TextReader:
    """A tokenizer, as prompts use it.

    Args:
        tokenizer: of the pair, checked when it was opened. A regular expression in its normalizer
            may still panic at some text: where it matches nothing.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def encodings(self, texts: list[str], special_tokens: bool) -> list[Encoding]:
        """As a batch: `encode` would stop all other Python threads until it ends (the GIL).

        Raises:
            EdgespecError: the tokenizer fails.
        """
        with self._errors():
            return self._tokenizer.encode_batch(texts, add_special_tokens=special_tokens)

    def normalized(self, text: str) -> str:
        """What the tokenizer makes of a text before it looks for tokens.

        Raises:
            EdgespecError: the tokenizer fails.
        """
        normalizer = self._tokenizer.normalizer
        if normalizer is None:
            return text
        with self._errors():
            return str(normalizer.normalize_str(text))

    @contextmanager
    def _errors(self) -> Iterator[None]:
        with tokenizer_errors("the tokenizer cannot encode this text"):
            if not self._may_panic:  # other threads need not wait
                yield
                return
            with quiet_panics():
                yield

    @cached_property
    def _may_panic(self) -> bool:
        normalizer = self._tokenizer.normalizer
        patterns = REGEX.findall(normalizer.__getstate__()) if normalizer is not None else []
        return not all(map(MATCHES_SOMETHING.fullmatch, patterns))
