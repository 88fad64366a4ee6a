"""When the words of a text are spoken, from the heads of cross-attention that follow the sound.

Each such head looks at the part of the sound that the next token is about. Its shares are compared
with those of the other tokens, smoothed over time, averaged over heads, and the path along which
they are largest says where each token begins: dynamic time warping. The method of Whisper's own
program (Radford et al. 2022; openai/whisper, `timing.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from edgespec.speech.words import TokenWord, Word, words_of

__all__ = ["Alignment", "WordTimer", "path_starts", "token_starts", "within"]

# From the tokens of a text to what share of the attention of each head every position of the sound
# has after each token, float32 [heads, tokens, positions].
Alignment = Callable[[Sequence[int]], npt.NDArray[np.float32]]

STEPS_PER_SECOND = 50  # a position is 20 ms
SMOOTHED = 7  # positions
DIAGONAL, UP, LEFT = range(3)  # from both before, the token before, the position before


class WordTimer:
    """Says when the words of a window's segments are spoken.

    Args:
        alignment: of a text about the window that the target has heard last.
        decode: the text of token ids.
    """

    def __init__(self, alignment: Alignment, decode: Callable[[Sequence[int]], str]) -> None:
        self._alignment = alignment
        self._decode = decode

    def words(
        self,
        segments: Sequence[Sequence[int]],
        prompt: Sequence[int],
        *,
        steps: int,
        begins: float,
        language: str | None,
    ) -> Iterator[tuple[Word, ...]]:
        """The words of each segment.

        Args:
            segments: tokens of text, without timestamps.
            prompt: what a text without timestamps begins with.
            steps: positions of the window that are sound.
            begins: seconds of the whole sound at which the window does.
            language: code of the spoken language.
        """
        text = [token for segment in segments for token in segment]
        if not text:
            yield from (() for _ in segments)
            return
        # What is looked at for a token is what the row before it looks at.
        shares = self._alignment([*prompt, *text])[:, len(prompt) - 1 :, : max(steps, 1)]
        seconds = [begins + start / STEPS_PER_SECOND for start in token_starts(shares).tolist()]
        at = 0
        for segment in segments:
            found = words_of(segment, self._decode, language)
            yield tuple(_timed(found, seconds[at : at + len(segment) + 1]))
            at += len(segment)


def _timed(words: Sequence[TokenWord], seconds: Sequence[float]) -> Iterator[Word]:
    """Words with times, from the times of their tokens and of the one after them."""
    borders = accumulate((word.tokens for word in words), initial=0)
    for word, (first, after) in zip(words, pairwise(borders), strict=True):
        if text := word.text.strip():
            yield Word(round(seconds[first], 2), round(seconds[after], 2), text)


def within(words: Sequence[Word], start: float, end: float) -> tuple[Word, ...]:
    """Words of a segment without the silence around it.

    A path begins with the sound, so the first word has the silence before it, and the last one has
    that after it; the segment's own times say where they are.
    """
    trimmed = [*words]
    if trimmed and trimmed[0].start < start < trimmed[0].end:
        trimmed[0] = replace(trimmed[0], start=round(start, 2))
    if trimmed and trimmed[-1].start < end < trimmed[-1].end:
        trimmed[-1] = replace(trimmed[-1], end=round(end, 2))
    return tuple(trimmed)


def token_starts(shares: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
    """The position of the sound at which each token begins, [tokens].

    Args:
        shares: [heads, tokens, positions].
    """
    total = shares.sum(axis=2, keepdims=True)  # positions after the sound may be left out
    of_sound = shares / np.where(total > 0, total, np.float32(1))
    deviation = of_sound.std(axis=1, keepdims=True)
    above = of_sound - of_sound.mean(axis=1, keepdims=True)
    compared = above / np.where(deviation > 0, deviation, np.float32(1))
    mean = np.mean([_smoothed(head) for head in compared], axis=0, dtype=np.float64)
    return path_starts(-np.asarray(mean))


def _smoothed(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """The median of `SMOOTHED` positions around each, mirrored at both ends."""
    side = SMOOTHED // 2
    if rows.shape[1] <= side:
        return rows
    mirrored = np.pad(rows, [(0, 0), (side, side)], mode="reflect")
    around = np.lib.stride_tricks.sliding_window_view(mirrored, SMOOTHED, axis=1)
    return np.asarray(np.median(around, axis=2))


def path_starts(costs: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Where the cheapest path through a matrix enters each row, [rows].

    A path leads from the first corner to the last by steps to the next row, to the next column, or
    to both, and costs the sum of what it touches (Sakoe and Chiba 1978).
    """
    rows, columns = costs.shape
    moves = np.full((rows + 1, columns + 1), LEFT, np.int8)
    # Sums along diagonals, by row; row 0 and column 0 are outside, but for the corner.
    before = np.full(rows + 1, np.inf)
    last = before.copy()
    before[0] = 0.0
    for diagonal in range(2, rows + columns + 1):
        row = np.arange(max(1, diagonal - columns), min(rows, diagonal - 1) + 1)
        both, up, left = before[row - 1], last[row - 1], last[row]
        move = np.full(len(row), LEFT, np.int8)
        move[(both < up) & (both < left)] = DIAGONAL
        move[(up < both) & (up < left)] = UP
        sums = np.full(rows + 1, np.inf)
        sums[row] = costs[row - 1, diagonal - row - 1] + np.choose(move, (both, up, left))
        moves[row, diagonal - row] = move
        before, last = last, sums
    starts = np.zeros(rows, np.int64)
    row, column = rows, columns
    while row > 0:
        starts[row - 1] = column - 1
        move = moves[row, column]
        row -= move != LEFT
        column -= move != UP
    return starts
