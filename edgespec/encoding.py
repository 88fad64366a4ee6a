"""What a caller gives to go on from, a text, token ids or a conversation, as tokens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any

from edgespec.chat import ChatFormat, Message, said
from edgespec.errors import UsageError

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

__all__ = ["Given", "Prompt", "encoded"]

Given = str | Sequence[int] | Sequence[Message]


@dataclass(frozen=True)
class Prompt:
    """Tokens to go on from.

    Attributes:
        tokens: at least one.
        answers: of a conversation, where its earlier answers are: positions that a model computes
            as if it had just generated them. None if this is no conversation.
    """

    tokens: list[int]
    answers: list[range] | None = None


def encoded(given: Given, tokenizer: Tokenizer, form: ChatFormat | None, chat: bool) -> Prompt:
    """A text, token ids or messages as tokens.

    Args:
        form: the model's chat format; None if it does not chat.
        chat: put it around a text. Messages always have it around them, token ids never.

    Raises:
        UsageError: it is none of these, empty, no Unicode, or wants a format that is not there.
    """
    if isinstance(given, str):
        if not chat:
            return Prompt(list(_encoding(given, tokenizer).ids))
        return Prompt(_conversation([said(given)], tokenizer, form).tokens)
    if isinstance(given, (bytes, bytearray, Mapping)) or not isinstance(given, Iterable):
        raise UsageError(f"the prompt is {given!r:.80}; give text, token ids, or chat messages")
    parts = list(given)
    if any(isinstance(part, Mapping) for part in parts):
        return _conversation(parts, tokenizer, form)
    return Prompt(_token_ids(parts))


def _conversation(messages: list[Any], tokenizer: Tokenizer, form: ChatFormat | None) -> Prompt:
    if form is None:
        raise UsageError(
            "this model has no chat format; give it a plain text (no --chat or --system; no "
            "chat=True, no messages)"
        )
    text, answers = form.text(messages)
    encoding = _encoding(text, tokenizer, add_special_tokens=False)
    return Prompt(list(encoding.ids), [_tokens_of(answer, encoding) for answer in answers])


def _tokens_of(answer: range, encoding: Encoding) -> range:
    """The positions that were scored while an answer was generated.

    They begin one before its first token: the prompt's last token was scored to draw that one. A
    token across the border is none of the answer's.
    """
    inside = [
        place
        for place, (start, stop) in enumerate(encoding.offsets)
        if answer.start <= start < stop <= answer.stop
    ]
    return range(max(inside[0] - 1, 0), inside[-1] + 1) if inside else range(0)


def _encoding(text: str, tokenizer: Tokenizer, add_special_tokens: bool = True) -> Encoding:
    if not text:
        raise UsageError("the prompt is empty; give some text")
    try:
        text.encode()
    except UnicodeEncodeError as error:  # bytes that are no text, from a command line
        raise UsageError(
            f"the prompt is not Unicode text at character {error.start}; give it as UTF-8"
        ) from None
    return tokenizer.encode(text, add_special_tokens=add_special_tokens)


def _token_ids(prompt: Sequence[object]) -> list[int]:
    """A list of texts is none."""
    wrong = [token for token in prompt if not isinstance(token, Integral)]
    if wrong:
        raise UsageError(f"the prompt holds {wrong[0]!r:.80}; give one text, or token ids")
    return [int(token) for token in prompt if isinstance(token, Integral)]
