"""Which calls compute a prompt, so that what a cache holds of a conversation may stay there.

A long call may round otherwise than a short one. What a model has generated was computed in short
ones, which all agree; whatever else there is goes through the same long ones each time.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import takewhile
from typing import NamedTuple

__all__ = ["Cached", "Piece", "call_end", "kept", "making"]

# A longer prompt is taken in pieces, which bounds the memory its attention scores need. Scores of
# so many positions are still in the processor's cache when they are read again (docs/speed.md).
LONGEST = 256


class Piece(NamedTuple):
    """A long call: the positions in it, and whether they are an answer's."""

    start: int
    stop: int
    answer: bool


# What a position was computed from, its token if no more, and the long call that it was in.
Cached = tuple[Hashable, Piece | None]


def making(count: int, answers: Sequence[range], steps: bool) -> list[Piece | None]:
    """How each of a prompt's first `count` positions is computed: the long call that it is in, or
    None if it is in any short one.

    Args:
        answers: positions that a model scored while it generated, in order.
        steps: compute them in short calls again; else in long ones of their own.
    """
    made: list[Piece | None] = [None] * count
    ends = [end for answer in answers for end in (answer.start, answer.stop)]
    for place, (start, end) in enumerate(zip([0, *ends], [*ends, count], strict=True)):
        is_answer = place % 2 == 1
        for first in range(start, min(end, count), LONGEST):
            piece = Piece(first, min(first + LONGEST, end, count), is_answer)
            if not (is_answer and steps):
                made[first : piece.stop] = [piece] * (piece.stop - first)
    return made


def kept(cached: Sequence[Cached], anew: Sequence[Cached]) -> int:
    """How many positions in a cache are as they would be if they were computed anew.

    A long call that would hold other tokens is not kept in part.
    """
    alike = takewhile(lambda both: both[0] == both[1], zip(cached, anew, strict=False))
    count = sum(1 for _ in alike)
    last = anew[count - 1][1] if count else None
    return last.start if last is not None and last.stop > count else count


def call_end(start: int, made: Sequence[Piece | None], short: int) -> int:
    """Where the call ends that begins at `start`; a short one has at most `short` positions."""
    piece = made[start]
    if piece is not None:
        return piece.stop
    rest = takewhile(lambda piece: piece is None, made[start : start + short])
    return start + sum(1 for _ in rest)
