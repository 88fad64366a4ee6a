"""The exported tokenizer, and text that grows token by token."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from edgespec.artifact.manifest import TOKENIZER
from edgespec.errors import EdgespecError, UsageError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["GrowingText", "load_tokenizer"]


def load_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer of an exported pair.

    Raises:
        EdgespecError: the file is missing or damaged.
    """
    from tokenizers import Tokenizer

    path = folder / TOKENIZER
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare exceptions
        raise EdgespecError(f"{path} is not a tokenizer ({error}); export the pair again") from None


class GrowingText:
    """The text of the tokens so far, released as soon as no later token can change it.

    What might be the beginning of a stop string or of an unfinished character is held back.

    Args:
        tokenizer: of the pair.
        stop: strings that end the text; they are not part of it.
    """

    def __init__(self, tokenizer: Tokenizer, stop: Sequence[str] = ()) -> None:
        if not all(stop):
            raise UsageError("a stop string is empty; give at least one character")
        self._tokenizer = tokenizer
        self._stop = tuple(stop)
        self._tokens: list[int] = []
        self._settled = 0  # tokens whose text is final
        self._before = 0  # tokens in front of them that are decoded along, for their spaces
        self._pending = ""  # text that is final but might begin a stop string
        self.stopped = False

    def add(self, token: int) -> str:
        """The text that this token settles, possibly none."""
        self._tokens.append(token)
        return self._release(self._decode_new())

    def end(self) -> str:
        """What was held back, at the end of the text."""
        if self.stopped:
            return ""
        rest = self._release(self._decode_new(last=True))
        held, self._pending = self._pending, ""
        return rest + held

    def _decode_new(self, last: bool = False) -> str:
        """The text behind the settled tokens.

        A decoder may treat the first token of a text differently (drop a space), so the previous
        settled tokens are decoded along and their text is cut off again.
        """
        before = self._text(self._tokens[self._before : self._settled])
        whole = self._text(self._tokens[self._before :])
        if not last and (whole.endswith("\N{REPLACEMENT CHARACTER}") or len(whole) <= len(before)):
            return ""
        self._before = self._settled
        self._settled = len(self._tokens)
        return whole[len(before) :]

    def _text(self, tokens: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=True))

    def _release(self, text: str) -> str:
        text = self._pending + text
        found = [place for stop in self._stop if (place := text.find(stop)) >= 0]
        if found:
            self.stopped = True
            self._pending = ""
            return text[: min(found)]
        held = max((_overlap(text, stop) for stop in self._stop), default=0)
        self._pending = text[len(text) - held :]
        return text[: len(text) - held]


def _overlap(text: str, stop: str) -> int:
    """How many characters at the end of `text` might be the beginning of `stop`."""
    for size in range(min(len(stop) - 1, len(text)), 0, -1):
        if text.endswith(stop[:size]):
            return size
    return 0
