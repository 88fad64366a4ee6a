"""The exported tokenizer, and text that is decoded token by token."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from edgespec.artifact.manifest import TOKENIZER
from edgespec.errors import EdgespecError, UsageError, one_line
from edgespec.pair.foreign.quiet_panics import is_panic, quiet_panics
from edgespec.pair.foreign.tokenizer_check import check_settings
from edgespec.pair.foreign.tokenizer_trial import try_texts

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = [
    "GrowingText",
    "check_stop_strings",
    "is_tokenizer_error",
    "load_tokenizer",
    "tokenizer_errors",
]

UNFINISHED = "\N{REPLACEMENT CHARACTER}"  # stands for the bytes of a part of a character


def load_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer of an exported pair.

    Raises:
        EdgespecError: the file is missing or damaged, or no tokenizer of a pair (`check_settings`).
    """
    from tokenizers import Tokenizer

    path = folder / TOKENIZER
    with tokenizer_errors(f"{path} is not a tokenizer"), quiet_panics():
        tokenizer = Tokenizer.from_file(str(path))
        check_settings(tokenizer)
        try_texts(tokenizer)
    return tokenizer


@contextmanager
def tokenizer_errors(what: str) -> Iterator[None]:
    """Replaces an error of the package tokenizers by a line that begins with `what`.

    Raises:
        EdgespecError: the block raised a bare exception, or Rust's PanicException.
    """
    try:
        yield
    except BaseException as error:
        raise _as_line(error, what) from None


def _as_line(error: BaseException, what: str) -> BaseException:
    """An error of the package tokenizers as a line that begins with `what`; any other as it is."""
    if not is_tokenizer_error(error):
        return error
    return EdgespecError(f"{what} ({one_line(error)}); export the pair again")


def is_tokenizer_error(error: BaseException) -> bool:
    """Whether the package tokenizers may have raised it: Rust's panics are no `Exception`."""
    return isinstance(error, Exception) or is_panic(error)


def check_stop_strings(stop: Sequence[str]) -> None:
    """Raises UsageError for an empty one."""
    if not all(stop):
        raise UsageError("a stop string is empty; give at least one character")


class GrowingText:
    """The text of the tokens so far, released as soon as no later token can change it.

    The beginning of a character, and what may be the beginning of a stop string, are held back.

    Args:
        tokenizer: of the pair.
        stop: strings that end the text; they are not part of it.
        marks: special tokens that are spelled out; others have no text.
        before: tokens of the prompt that the text continues, so that prompt and text together are
            the decoding of all tokens. Without them the text stands alone, and a decoder may drop
            its first space.

    Attributes:
        characters: that are final, those of a stop string and those held back for it included: the
            index of the next token's first character.
        stopped: a stop string came.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        stop: Sequence[str] = (),
        marks: Collection[int] = (),
        before: Sequence[int] = (),
    ) -> None:
        check_stop_strings(stop)
        self._tokenizer = tokenizer
        self._hidden = _special_tokens(tokenizer).difference(marks) if marks else None
        self._stop = tuple(stop)
        self._tokens = self._last_of(before)
        self._final = len(self._tokens)  # number of tokens whose text is final
        self._context = 0  # index of the first token that is decoded again, for the spaces
        self._pending = ""  # final text that may begin a stop string
        self.characters = 0
        self.stopped = False

    def add(self, token: int) -> str:
        """The text that becomes final with this token, possibly none."""
        self._tokens.append(token)
        return self._release(self._decode_new())

    def end(self) -> str:
        """The text that was held back, once no token follows."""
        if self.stopped:
            return ""
        rest = self._release(self._decode_new(last=True))
        held, self._pending = self._pending, ""
        return rest + held

    def _decode_new(self, last: bool = False) -> str:
        """The text after the final tokens.

        A decoder may treat the first token of a text differently (drop a space), so the previous
        final tokens are decoded again and their text is cut off.
        """
        context = self._text(self._tokens[self._context : self._final])
        whole = self._text(self._tokens[self._context :])
        if not whole.startswith(context):  # the prompt ends inside a character
            context = context.rstrip(UNFINISHED)
        unfinished = whole.endswith(UNFINISHED) or len(whole) <= len(context)
        if unfinished and not last:
            return ""
        self._context = self._final
        self._final = len(self._tokens)
        self.characters += len(whole) - len(context)
        return whole[len(context) :]

    def _last_of(self, before: Sequence[int]) -> list[int]:
        """The last tokens of a prompt, as many as the text after them depends on: from a whole
        character on, and not spaces alone."""
        for count in (16, 256):
            text = self._text(before[-count:])
            if text.strip() and not text.startswith(UNFINISHED):
                return list(before[-count:])
        return list(before)

    def _text(self, tokens: Sequence[int]) -> str:
        try:
            if self._hidden is None:
                return str(self._tokenizer.decode(list(tokens), skip_special_tokens=True))
            shown = [token for token in tokens if token not in self._hidden]
            return str(self._tokenizer.decode(shown, skip_special_tokens=False))
        except BaseException as error:  # no context manager: it would cost as much as the decoding
            raise _as_line(error, "the tokenizer cannot decode these tokens") from None

    def _release(self, text: str) -> str:
        text = self._pending + text
        found = [start for stop in self._stop if (start := text.find(stop)) >= 0]
        if found:
            self.stopped = True
            self._pending = ""
            return text[: min(found)]
        held = max((_overlap(text, stop) for stop in self._stop), default=0)
        self._pending = text[len(text) - held :]
        return text[: len(text) - held]


def _special_tokens(tokenizer: Tokenizer) -> frozenset[int]:
    added = tokenizer.get_added_tokens_decoder()
    return frozenset(token for token in added if added[token].special)


def _overlap(text: str, stop: str) -> int:
    """How many characters at the end of `text` may be the beginning of `stop`."""
    for size in range(min(len(stop) - 1, len(text)), 0, -1):
        if text.endswith(stop[:size]):
            return size
    return 0
