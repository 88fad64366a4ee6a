"""The thinking that a model writes before its answer: its marks, and where it is in a text."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from edgespec.chat.chat_template import ChatTemplate

__all__ = ["ReasoningFormat", "ReasoningReader", "Thought", "reasoning_format"]


@dataclass(frozen=True)
class ReasoningFormat:
    """The texts before and after a model's thinking."""

    begin: str
    end: str

    def is_open_after(self, text: str) -> bool:
        """Whether a prompt that ends in this text ends within the thinking that it begins."""
        return text.rstrip().endswith(self.begin)


# Those of Qwen, DeepSeek, SmolLM, Phi and others; of Seed; of Mistral; of Cohere.
FORMATS = (
    ReasoningFormat("<think>", "</think>"),
    ReasoningFormat("<seed:think>", "</seed:think>"),
    ReasoningFormat("[THINK]", "[/THINK]"),
    ReasoningFormat("<|START_THINKING|>", "<|END_THINKING|>"),
)


def reasoning_format(
    template: ChatTemplate | None, special: Collection[str] = ()
) -> ReasoningFormat | None:
    """How a model marks its thinking, by its chat template; None if it is not known to think.

    Args:
        special: names of its special tokens, which no text spells out.
    """
    if template is None:
        return None
    found = (form for form in FORMATS if template.names(form.end))
    form = next(found, None)
    return None if form is None or {form.begin, form.end}.intersection(special) else form


class Thought(str):
    """A piece of thinking, without its marks."""

    __slots__ = ()


class ReasoningReader:
    """Splits an answer into its thinking and the rest, piece by piece, as it is generated.

    Thinking is at the answer's beginning only. White space at its ends is left out, and so is that
    before the rest.

    Args:
        form: of the model's thinking.
        is_open: the prompt begins it.
    """

    def __init__(self, form: ReasoningFormat, is_open: bool) -> None:
        self._form = form
        self._unread = ""
        self._part = self._thinking if is_open else self._before
        self._has_begun = False  # the part that is being read has some text

    def read(self, text: str, last: bool = False) -> Iterator[Thought | str]:
        """The pieces that are certain now.

        Args:
            text: more of the answer.
            last: nothing follows.
        """
        self._unread += text
        while True:
            part, piece = self._part, self._part(last)
            if piece:
                yield piece
            if self._part == part:
                return

    def _before(self, last: bool) -> str:
        """Nothing, until it is certain whether the answer begins with thinking."""
        begun = self._unread.lstrip()
        if begun.startswith(self._form.begin):
            self._unread = begun[len(self._form.begin) :]
            self._part = self._thinking
        elif last or not self._form.begin.startswith(begun):
            self._has_begun = True  # an answer without thinking keeps its white space
            self._part = self._rest
        return ""

    def _thinking(self, last: bool) -> Thought:
        text, found, rest = self._unread.partition(self._form.end)
        if found:
            piece, self._unread = text.rstrip(), rest
            self._part = self._rest
        else:
            held = 0 if last else _held(text, self._form.end)
            piece = text[: len(text) - held]
            self._unread = text[len(piece) :]
        if not self._has_begun:
            piece = piece.lstrip()
        self._has_begun = not found and (self._has_begun or bool(piece))
        return Thought(piece)

    def _rest(self, last: bool) -> str:
        piece = self._unread if self._has_begun else self._unread.lstrip()
        self._has_begun |= bool(piece)
        self._unread = ""
        return piece


def _held(text: str, end: str) -> int:
    """How many characters at the end may belong to the end mark, with white space before it."""
    sizes = range(min(len(end) - 1, len(text)), 0, -1)
    mark = next((size for size in sizes if text.endswith(end[:size])), 0)
    before = text[: len(text) - mark]
    return mark + len(before) - len(before.rstrip())
