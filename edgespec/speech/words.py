"""Words of a text, as groups of its tokens.

A word begins with a space, or is a character in languages that are written without spaces; marks
belong to the word that they stand at. The rules of Whisper's own program (openai/whisper,
`tokenizer.py` and `timing.py`), so that words are those of other programs.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass

__all__ = ["TokenWord", "Word", "words_of"]

WITHOUT_SPACES = frozenset({"zh", "ja", "th", "lo", "my", "yue"})
OPENING = frozenset("\"'“¿¡([{-")
CLOSING = frozenset("\"'.。,，!！?？:：”)]}、")
MARKS = frozenset(string.punctuation)
DAMAGED = "\ufffd"  # stands for bytes that are no character


@dataclass(frozen=True)
class Word:
    """A word of a transcript, with the marks before and after it.

    Attributes:
        start, end: seconds from the beginning of the sound.
        text: without white space around it.
    """

    start: float
    end: float
    text: str


@dataclass(frozen=True)
class TokenWord:
    """A word of a text.

    Attributes:
        text: with the space before it, if it has one.
        tokens: how many of the text's tokens it is.
    """

    text: str
    tokens: int

    def __add__(self, after: TokenWord) -> TokenWord:
        return TokenWord(self.text + after.text, self.tokens + after.tokens)


def words_of(
    tokens: Sequence[int], decode: Callable[[Sequence[int]], str], language: str | None
) -> list[TokenWord]:
    """The words of a text, which together have all its tokens.

    Args:
        tokens: of text only.
        decode: the text of token ids.
        language: code of the text's language.
    """
    pieces = _characters(tokens, decode)
    if language not in WITHOUT_SPACES:
        pieces = _by_spaces(pieces)
    return _with_marks(pieces)


def _characters(tokens: Sequence[int], decode: Callable[[Sequence[int]], str]) -> list[TokenWord]:
    """The smallest runs of tokens that are whole characters: one may have several tokens."""
    whole = decode(tokens)
    pieces: list[TokenWord] = []
    start = at = 0
    for end in range(1, len(tokens) + 1):
        text = decode(tokens[start:end])
        if DAMAGED not in text or whole.startswith(text, at) or end == len(tokens):
            pieces.append(TokenWord(text, end - start))
            start, at = end, at + len(text)
    return pieces


def _by_spaces(pieces: Sequence[TokenWord]) -> list[TokenWord]:
    """Pieces joined to words; a mark is one of its own, as yet."""
    words: list[TokenWord] = []
    for piece in pieces:
        if words and not piece.text.startswith(" ") and not _is_of(piece.text, MARKS):
            words[-1] += piece
        else:
            words.append(piece)
    return words


def _with_marks(words: Sequence[TokenWord]) -> list[TokenWord]:
    """Words with the opening marks before them and the closing ones after them."""
    joined: list[TokenWord] = []
    opened: TokenWord | None = None
    for word in words:
        if _opens(word.text):
            opened = word if opened is None else opened + word
        elif opened is not None:
            joined.append(opened + word)
            opened = None
        elif joined and not joined[-1].text.endswith(" ") and _closes(word.text):
            joined[-1] += word
        else:
            joined.append(word)
    return joined if opened is None else [*joined, opened]


def _opens(text: str) -> bool:
    """A mark alone; two dashes are a word."""
    return text.startswith(" ") and len(text.strip()) < 2 and _is_of(text, OPENING)


def _closes(text: str) -> bool:
    return not text.startswith(" ") and _is_of(text, CLOSING)


def _is_of(text: str, marks: frozenset[str]) -> bool:
    """Whether a text is nothing but such marks; one of white space alone is."""
    return marks.issuperset(text.strip())
