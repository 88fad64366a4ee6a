"""Alignment of the blocks of a page with those of its translation."""

import math
import re
from collections.abc import Iterator

from pairs import Pair

Block = tuple[str, str]  # kind of the block, such as "p" or "h2", and its text


def align(english: list[Block], german: list[Block], band: int = 40) -> Iterator[Pair]:
    """Pairs of blocks of the same kind, in order, by the cheapest path that may skip blocks.

    Pairing costs the distance of the lengths' logarithms and of the words that only one side has
    among numbers, names and options; skipping a block costs 1.2. Only paths within `band` blocks of
    the straight line are looked at. Where the kinds agree throughout, blocks pair one to one.
    """
    if [kind for kind, _ in english] == [kind for kind, _ in german]:
        yield from ((e, g) for (_, e), (_, g) in zip(english, german, strict=True))
        return
    rows, columns = len(english), len(german)
    band = max(band, abs(rows - columns) + 10)
    if rows * min(columns, 2 * band) > 2_000_000:
        return
    marks = [
        [set(re.findall(r"\S*[\d_/]\S*|-\w\S*", text)) for _, text in side]
        for side in (english, german)
    ]
    best: list[dict[int, tuple[float, int]]] = [{} for _ in range(rows + 1)]  # column -> cost, step
    for i in range(rows + 1):
        middle = i * columns // max(rows, 1)
        for j in range(max(0, middle - band), min(columns, middle + band) + 1):
            options = [(0.0, 0)] if i == j == 0 else []
            if i and j in best[i - 1]:
                options.append((best[i - 1][j][0] + 1.2, 1))
            if j and j - 1 in best[i]:
                options.append((best[i][j - 1][0] + 1.2, 2))
            if i and j and j - 1 in best[i - 1] and english[i - 1][0] == german[j - 1][0]:
                ratio = math.log((len(german[j - 1][1]) + 5) / (1.15 * len(english[i - 1][1]) + 5))
                either = marks[0][i - 1] | marks[1][j - 1]
                apart = len(marks[0][i - 1] ^ marks[1][j - 1]) / len(either) if either else 0.0
                options.append((best[i - 1][j - 1][0] + 2 * abs(ratio) + 1.5 * apart, 3))
            if options:
                best[i][j] = min(options)
    if columns not in best[rows]:
        return
    pairs, i, j = [], rows, columns
    while i or j:
        step = best[i][j][1]
        if step == 3:
            pairs.append((english[i - 1][1], german[j - 1][1]))
        i, j = i - (step != 2), j - (step != 1)
    if len(pairs) >= 0.9 * min(rows, columns):  # else the translation is of another edition
        yield from reversed(pairs)
