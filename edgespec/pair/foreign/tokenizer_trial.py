"""Texts that a tokenizer must read and write before a pair is opened: Rust panics at some of them
where a setting makes no sense."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["try_texts"]

TEXTS = ("a", " ", "  ", "a ", " a", "Hello, world.\n", "12 é ① 日本 😀\u0301\u2028\x00")


def try_texts(tokenizer: Tokenizer) -> None:
    """Encodes a few texts, and decodes each from its first token on.

    A vocabulary may lack a character of theirs, which is an error of such texts alone.

    Raises:
        BaseException: Rust's PanicException; for an empty text, whatever tokenizers raises.
    """
    tokenizer.encode("")  # a post-processor with an unknown token fails here
    for text in TEXTS:
        with suppress(Exception):
            tokens = tokenizer.encode(text).ids
            for count in range(len(tokens) + 1):
                tokenizer.decode(tokens[:count], skip_special_tokens=False)
                tokenizer.decode(tokens[count:])
