"""What a model thinks before it answers, told from its answer while both are made."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["BEGINS", "Thinking"]

BEGINS = "<think>"
ENDS = "</think>"


class Thinking:
    """Splits a text that begins with <think>…</think>; what comes later is the answer.

    Args:
        begun: the prompt ended with <think>, so the text begins within it.

    Attributes:
        inside: what came last belongs to the thinking.
    """

    def __init__(self, begun: bool = False) -> None:
        self.inside = begun
        self._may_begin = not begun
        self._held = ""

    def split(self, text: str) -> Iterator[tuple[bool, str]]:
        """The next piece of the text as (is thinking, text); a mark that may be unfinished is held
        back."""
        text, self._held = self._held + text, ""
        if self._may_begin:
            opened = text.lstrip()
            if BEGINS.startswith(opened[: len(BEGINS)]) and len(opened) < len(BEGINS):
                self._held = text
                return
            self._may_begin = False
            if opened.startswith(BEGINS):
                self.inside = True
                text = opened.removeprefix(BEGINS)
        if self.inside:
            thought, mark, text = text.partition(ENDS)
            if not mark:
                self._held = _unfinished(thought)
                yield True, thought.removesuffix(self._held)
                return
            yield True, thought
            self.inside = False
        if text:
            yield False, text

    def rest(self) -> Iterator[tuple[bool, str]]:
        """What was held back when the text ended."""
        if self._held:
            yield self.inside, self._held
            self._held = ""


def _unfinished(text: str) -> str:
    """The end of a text that may be the beginning of the closing mark."""
    lengths = range(min(len(ENDS) - 1, len(text)), 0, -1)
    return next((text[-length:] for length in lengths if ENDS.startswith(text[-length:])), "")
