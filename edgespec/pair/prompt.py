"""Prompts as token ids: a text, token ids, or the messages of a conversation."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import TYPE_CHECKING, cast

from edgespec.artifact.chat_format import (
    ChatFormat,
    ChatText,
    Message,
    check_text,
    user_message,
)
from edgespec.chat.chat_template import ChatTemplate
from edgespec.chat.chat_writer import ChatOptions, ChatWriter
from edgespec.errors import UsageError, shortened
from edgespec.pair.foreign.text_reader import TextReader
from edgespec.pair.token_bound import TokenBound
from edgespec.tools.tool_list import Tool

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

__all__ = ["Prompt", "PromptEncoder", "PromptInput"]


@dataclass(frozen=True)
class Prompt:
    """Token ids that a model continues.

    Attributes:
        tokens: at least one.
        assistant_spans: the positions of a conversation's earlier answers, which a model computes
            as if it had just generated them. None if the prompt is no conversation.
        starts: where the tokens of a plain text begin in it, in characters; None for others.
        is_continued: the generated text continues the prompt's own, and is not an answer to it.
        dropped: messages of a conversation that were left out, since the cache cannot hold them.
    """

    tokens: list[int]
    assistant_spans: list[range] | None = None
    starts: list[int] | None = None
    is_continued: bool = False
    dropped: int = 0


PromptInput = str | Sequence[int] | Sequence[Message] | Prompt


@dataclass(frozen=True)
class _Encoded:
    """Token ids, and for each the characters [start, end) of the text that it was made from."""

    tokens: list[int]
    offsets: list[tuple[int, int]]


class PromptEncoder:
    """Makes token ids of what a caller gives.

    Special tokens that are spelled out in a message are ordinary text: a user who types
    "<|im_end|>" must not end his own turn (docs/decisions/0020). In a plain text they are control
    tokens, so that a caller can write a chat format himself.

    Args:
        tokenizer: of the pair.
        chat_format: of the model; None if it does not chat.
        template: the model's chat template, if it has one; it writes conversations where Jinja is
            installed.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        chat_format: ChatFormat | None,
        template: ChatTemplate | None = None,
    ) -> None:
        self.chats = template is not None or chat_format is not None
        self._tokenizer = tokenizer
        self._reader = TextReader(tokenizer)
        self.chat = ChatWriter(
            template, chat_format, [*self._special.values()], self._reader.normalized
        )

    def __call__(
        self,
        given: PromptInput,
        chat: bool | None,
        tools: Sequence[Tool] = (),
        options: ChatOptions | None = None,
        most: int | None = None,
        what: str = "the prompt",
    ) -> Prompt:
        """The token ids of a prompt.

        Args:
            given: a text, token ids, which are used as they are, messages, or what an earlier call
                returned.
            chat: put the chat format around a text; None: if the model has one. Messages always
                have it, token ids never.
            tools: functions that an answer to messages may call.
            options: how messages are written.
            most: tokens that the model reads. Longer texts are refused before they are encoded, as
                far as their length says it. None: any number.
            what: it is called where it is refused.

        Raises:
            UsageError: it is something else, empty or no Unicode, or the model does not chat.
        """
        if isinstance(given, Prompt):
            return given
        if isinstance(given, str):
            _check_no_tools(tools)
            check_text(given, what)
            if not self.adds_chat(chat):
                self._check_length(given, most)
                encoding = self._reader.encodings([given], True)[0]
                starts = _starts(encoding, len(given))
                return Prompt(list(encoding.ids), starts=starts, is_continued=True)
            return Prompt(self._conversation([user_message(given)], (), options, most).tokens)
        if isinstance(given, (bytes, bytearray, Mapping)) or not isinstance(given, Iterable):
            raise UsageError(
                f"{what} is {shortened(given)}; give text, token ids, or chat messages"
            )
        parts: list[object] = list(given)
        if not parts:
            raise UsageError(f"{what} is empty; give at least one token")
        if any(isinstance(part, Mapping) for part in parts):
            return self._conversation(cast(list[Message], parts), tools, options, most)
        _check_no_tools(tools)
        return Prompt(_token_ids(parts, what), is_continued=True)

    def adds_chat(self, chat: bool | None) -> bool:
        """Whether a text gets the chat format."""
        return self.chats if chat is None else chat

    def text_alone(self, text: str) -> list[int]:
        """The token ids of a text that follows others, without special tokens around it."""
        return list(self._reader.encodings([text], False)[0].ids)

    def _conversation(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool],
        options: ChatOptions | None,
        most: int | None,
    ) -> Prompt:
        chat = self.chat(messages, [tool.shown for tool in tools], options)
        self._check_length(chat.text, most)
        encoded = self._encode_chat(chat)
        if not encoded.tokens:
            raise UsageError("the chat format writes nothing for these messages; give others")
        return Prompt(encoded.tokens, _positions(chat.assistant_spans, encoded.offsets))

    def _encode_chat(self, chat: ChatText) -> _Encoded:
        """The whole text in one piece, unless a message spells out a special token."""
        encoding = self._reader.encodings([chat.text], False)[0]
        whole = _Encoded(list(encoding.ids), list(encoding.offsets))
        overlaps = _Overlaps(chat.contents)
        in_messages = any(
            token in self._special
            and overlaps(start, end)
            and self._is_spelled_out(token, chat.text[start:end])
            for token, (start, end) in zip(whole.tokens, whole.offsets, strict=True)
        )
        return self._encode_pieces(chat) if in_messages else whole

    def _encode_pieces(self, chat: ChatText) -> _Encoded:
        """Special tokens of the chat format as such, and all text between them as ordinary text."""
        control = self._control_tokens(chat)
        starts = [0, *(end for _, _, end in control)]
        ends = [*(start for _, start, _ in control), len(chat.text)]
        texts = [chat.text[start:end] for start, end in zip(starts, ends, strict=True)]
        tokens: list[int] = []
        offsets: list[tuple[int, int]] = []
        for number, encoding in enumerate(self._plain.encodings(texts, False)):
            tokens += encoding.ids
            begin = starts[number]
            offsets += ((begin + first, begin + last) for first, last in encoding.offsets)
            if number < len(control):
                token, start, end = control[number]
                tokens.append(token)
                offsets.append((start, end))
        return _Encoded(tokens, offsets)

    def _control_tokens(self, chat: ChatText) -> list[tuple[int, int, int]]:
        """(token id, start, end) of the special tokens that the chat format itself writes."""
        found = []
        begins = [0, *(part.stop for part in chat.contents)]
        ends = [*(part.start for part in chat.contents), len(chat.text)]
        pieces = [chat.text[begin:end] for begin, end in zip(begins, ends, strict=True)]
        encodings = self._reader.encodings(pieces, False)
        for begin, piece, encoding in zip(begins, pieces, encodings, strict=True):
            for token, (start, stop) in zip(encoding.ids, encoding.offsets, strict=True):
                if self._is_spelled_out(token, piece[start:stop]):
                    found.append((token, begin + start, begin + stop))
        return found

    def _is_spelled_out(self, token: int, text: str) -> bool:
        """Whether a token is special and its text names it: an unknown character becomes <unk>
        without a user having written that."""
        name = self._special.get(token)
        if name is None:
            return False
        return name in text or name in self._reader.normalized(text)

    def _check_length(self, text: str, most: int | None) -> None:
        if most is not None:
            self._bound.check(text, most)

    @cached_property
    def _bound(self) -> TokenBound:
        return TokenBound(self._tokenizer)

    @cached_property
    def _special(self) -> dict[int, str]:
        """Names of the special tokens, by token id."""
        added = self._tokenizer.get_added_tokens_decoder()
        return {token: added[token].content.strip() for token in added if added[token].special}

    @cached_property
    def _plain(self) -> TextReader:
        """A copy of the tokenizer that takes special tokens for ordinary text."""
        plain: Tokenizer = type(self._tokenizer).from_str(self._tokenizer.to_str())
        plain.encode_special_tokens = True
        return TextReader(plain)


def _check_no_tools(tools: Sequence[Tool]) -> None:
    if tools:
        raise UsageError("tools come with messages, and the prompt has none; give messages")


class _Overlaps:
    """Which characters are in one of several ranges, which are in order."""

    def __init__(self, ranges: Sequence[range]) -> None:
        self._ranges = [part for part in ranges if part]
        self._ends = [part.stop for part in self._ranges]

    def __call__(self, start: int, end: int) -> bool:
        """Whether [start, end) shares a character with them."""
        first = bisect_right(self._ends, start)
        return first < len(self._ranges) and self._ranges[first].start < end


def _starts(encoding: Encoding, length: int) -> list[int]:
    """Where each token begins. A special token that was added is where the token after it is."""
    starts: list[int] = []
    following = length
    for start, end in reversed(encoding.offsets):
        following = min(following, start) if end > start else following
        starts.append(following)
    return starts[::-1]


def _positions(assistant_spans: Sequence[range], offsets: Sequence[tuple[int, int]]) -> list[range]:
    """The positions that were scored while these answers (in characters) were generated.

    They begin one before an answer's first token: the prompt's last token was scored to draw that
    one, even if the answer is empty. A token across the border belongs to no answer.
    """
    if not assistant_spans:
        return []
    starts, ends = zip(*offsets, strict=True)
    positions: list[range] = []
    free = 0  # answers do not overlap, whatever offsets a tokenizer gives
    for answer in assistant_spans:
        first = max(bisect_left(starts, answer.start), free + 1)
        positions.append(range(first - 1, max(first, bisect_right(ends, answer.stop))))
        free = positions[-1].stop
    return positions


def _token_ids(prompt: Sequence[object], what: str) -> list[int]:
    """Raises UsageError where an entry is not a whole number: a list of texts is not a prompt."""
    wrong = [token for token in prompt if not isinstance(token, Integral)]
    if wrong:
        raise UsageError(f"{what} holds {shortened(wrong[0])}; give one text, or token ids")
    return [int(token) for token in prompt if isinstance(token, Integral)]
