"""Drafts from the text itself: what followed the same n-gram earlier (prompt lookup)."""

from __future__ import annotations

from collections.abc import Sequence

from edgespec.core.distribution import one_hot
from edgespec.core.draft import Proposal
from edgespec.core.randomness import Randomness

__all__ = ["PromptLookup"]


class PromptLookup:
    """Proposes what followed the latest n-gram earlier, in the prompt or in the text so far.

    Its tokens are determined, not drawn: their q is one-hot.

    Args:
        longest, shortest: lengths of the n-grams that are looked up, longest first.
    """

    seconds = 0.0

    def __init__(self, longest: int = 3, shortest: int = 2) -> None:
        self._sizes = range(longest, shortest - 1, -1)
        self._history: list[int] = []
        self._prompt_length = 0
        self._follower: dict[tuple[int, ...], int] = {}  # n-gram to the index after its latest use

    def begin(self, prompt: Sequence[int]) -> None:
        self._history = []
        self._follower = {}
        self._extend(prompt)
        self._prompt_length = len(self._history)

    def propose(self, text: Sequence[int], gamma: int, randomness: Randomness) -> Proposal:
        # text[0] is the prompt's last token, or a start token that belongs to no text.
        self._extend(text[1 + len(self._history) - self._prompt_length :])
        for size in self._sizes:
            start = self._follower.get(tuple(self._history[-size:]))
            if start is not None:
                tokens = self._history[start : start + gamma]
                return Proposal(tokens, [one_hot(token) for token in tokens])
        return Proposal()

    def _extend(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            end = len(self._history)
            for size in self._sizes:
                if end >= size:
                    self._follower[tuple(self._history[-size:])] = end
            self._history.append(token)
