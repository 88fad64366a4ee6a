"""Texts that do not change, sorted so that every occurrence of a suffix is found at once."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from edgespec.drafters.matcher import Continuation

__all__ = ["SuffixArray"]

DEPTH = 16  # tokens of the longest match; a power of 2
SAMPLED = 16  # occurrences of a match that are looked at


class SuffixArray:
    """Indices of known texts, sorted by the tokens before them, read backwards (Manber and Myers
    1990, to a depth of 16 tokens).

    Where the last k tokens of a text occur is one interval of them. Takes 8 bytes a token.

    Args:
        texts: token ids of each.
    """

    def __init__(self, texts: Sequence[npt.NDArray[np.int32]]) -> None:
        end = np.full(1, -1, np.int32)  # after each text; no text continues with it
        parts = [np.full(DEPTH, -1, np.int32), *(part for text in texts for part in (text, end))]
        tokens = np.concatenate(parts)
        order = _sorted_by_context(tokens)
        order = order[order >= DEPTH]  # no context begins before the array
        last = tokens[order - 1]
        starts = np.flatnonzero(np.diff(last, prepend=-2))
        self._tokens = tokens.data
        self._order = order.data
        self._last = last[starts].data  # the tokens before indices, and where each begins
        self._starts = np.append(starts, len(order)).data

    def __len__(self) -> int:
        """Number of indices that are sorted: of all tokens, and of the ends of texts."""
        return len(self._order)

    def begin(self) -> ArrayMatcher:
        return ArrayMatcher(self)

    def occurrences(self, context: Sequence[int]) -> Iterator[tuple[int, Sequence[int]]]:
        """Lengths of suffixes of `context`, increasing, and the indices after their occurrences.

        Of suffixes that occur at the same indices only the longest is given.
        """
        found: tuple[int, int, int] = 0, 0, 0
        low = high = 0
        for length, token in enumerate(reversed(context), start=1):
            low, high = self._narrowed(low, high, length, token) if found[0] else self._after(token)
            if found[0] and high - low < found[2] - found[1]:
                yield found[0], self._order[found[1] : found[2]]
            if low == high:
                return
            found = length, low, high
        if found[0]:
            yield found[0], self._order[found[1] : found[2]]

    def _after(self, token: int) -> tuple[int, int]:
        """The interval of the indices after a token."""
        number = bisect_left(self._last, token)
        if number == len(self._last) or self._last[number] != token:
            return 0, 0
        return self._starts[number], self._starts[number + 1]

    def _narrowed(self, low: int, high: int, back: int, token: int) -> tuple[int, int]:
        """The part of an interval whose token `back` before the index is the given one."""
        tokens = self._tokens
        if high - low == 1:  # the usual case, several times as fast
            return low, high if tokens[self._order[low] - back] == token else low

        def before(index: int) -> int:
            return tokens[index - back]

        low = bisect_left(self._order, token, low, high, key=before)
        return low, bisect_right(self._order, token, low, high, key=before)

    def best(self, indices: Sequence[int]) -> Continuation | None:
        """The most frequent token at some indices; of equal ones, the first."""
        step = 1 + (len(indices) - 1) // SAMPLED
        sampled = list(indices[::step])
        followed = Counter(self._tokens[index] for index in sampled)
        total = len(sampled)
        del followed[-1]
        if not followed:
            return None
        token, count = followed.most_common(1)[0]
        after = [index + 1 for index in sampled if self._tokens[index] == token]
        return Continuation(token, count, total, after)


class ArrayMatcher:
    """Finds the suffixes of a growing text in a suffix array."""

    def __init__(self, array: SuffixArray) -> None:
        self._array = array
        self._context: list[int] = []
        self.best = array.best

    def read(self, tokens: Sequence[int]) -> None:
        self._context = [*self._context, *tokens[-DEPTH:]][-DEPTH:]

    def suffixes(self) -> Iterator[tuple[int, Sequence[int]]]:
        return reversed(list(self._array.occurrences(self._context)))


def _sorted_by_context(tokens: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """All indices, sorted by the `DEPTH` tokens before them, the last of those first.

    The ranks of contexts of 2d tokens follow from those of d tokens.
    """
    count = len(tokens)
    rank = np.zeros(count + 1, np.int64)  # of the context of each index; 0 has none
    rank[1:] = tokens + 2
    depth = 1
    while True:
        order = np.argsort(rank, kind="stable")
        if depth > DEPTH:
            return order[order < count].astype(np.int32)
        ordered = rank[order]
        rank[order] = np.cumsum(np.diff(ordered, prepend=ordered[:1]) != 0)
        earlier = np.zeros(count + 1, np.int64)
        earlier[depth:] = rank[:-depth] if depth <= count else 0
        rank = rank * (count + 1) + earlier
        depth *= 2
