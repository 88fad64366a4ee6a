"""What a caller gives to go on from, a text, token ids or a conversation, as tokens."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any

from edgespec.artifact.chat_format import ChatFormat, Message, check_text, user_message
from edgespec.errors import UsageError

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

__all__ = ["Prompt", "PromptInput", "encoded"]

PromptInput = str | Sequence[int] | Sequence[Message]


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


def encoded(
    given: PromptInput, tokenizer: Tokenizer, form: ChatFormat | None, chat: bool
) -> Prompt:
    """A text, token ids or messages as tokens.

    Args:
        form: the model's chat format; None if it does not chat.
        chat: put it around a text. Messages always have it around them, token ids never.

    Raises:
        UsageError: it is none of these, empty, no Unicode, or wants a format that is not there.
    """
    if isinstance(given, str):
        check_text(given, "the prompt")
        if not chat:
            return Prompt(list(_encoding(given, tokenizer, True).ids))
        return Prompt(_conversation([user_message(given)], tokenizer, form).tokens)
    if isinstance(given, (bytes, bytearray, Mapping)) or not isinstance(given, Iterable):
        raise UsageError(f"the prompt is {given!r:.80}; give text, token ids, or chat messages")
    parts = list(given)
    if not parts:
        raise UsageError("the prompt is empty; give at least one token")
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
    encoding = _encoding(text, tokenizer, False)
    return Prompt(list(encoding.ids), _positions(answers, encoding))


def _encoding(text: str, tokenizer: Tokenizer, special_tokens: bool) -> Encoding:
    """As a batch of one: `encode` would stop all other Python threads until it ends (the GIL)."""
    return tokenizer.encode_batch([text], add_special_tokens=special_tokens)[0]


def _positions(answers: Sequence[range], encoding: Encoding) -> list[range]:
    """The positions that were scored while these answers (in characters) were generated.

    They begin one before an answer's first token: the prompt's last token was scored to draw that
    one, even if the answer is empty. A token across the border is none of the answer's.
    """
    if not answers:
        return []
    starts, ends = zip(*encoding.offsets, strict=True)
    positions: list[range] = []
    free = 0  # whatever a tokenizer says of its offsets, answers do not overlap
    for answer in answers:
        first = max(bisect_left(starts, answer.start), free + 1)
        positions.append(range(first - 1, max(first, bisect_right(ends, answer.stop))))
        free = positions[-1].stop
    return positions


def _token_ids(prompt: Sequence[object]) -> list[int]:
    """A list of texts is none."""
    wrong = [token for token in prompt if not isinstance(token, Integral)]
    if wrong:
        raise UsageError(f"the prompt holds {wrong[0]!r:.80}; give one text, or token ids")
    return [int(token) for token in prompt if isinstance(token, Integral)]
