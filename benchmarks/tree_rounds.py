"""Rounds of drafted branches, replayed: what each way to draft brings, and what it costs.

`trees.py` finds the branches; nothing is timed here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["WAYS", "Branch", "Looked", "Text", "best"]

CANDIDATES = {"chain": 0, "candidates": 2, "wide": 5}  # beside a drafted token
MOST_ROWS = 40  # of a call, besides the first
DRAFT_ROW = 0.08  # what a further row adds to a call of the draft, in calls
LOOKUP_OVERHEAD = 0.06  # of a round that prompt lookup drafts, in steps
RATES = [1 + 0.1 * tenth for tenth in range(26)]  # what a step is worth, in tokens
WAYS = ("chain", "candidates", "wide", "tree", "free")


@dataclass(eq=False)
class Branch:
    """Tokens that may follow a position.

    Attributes:
        chance: that the target writes them all, as the draft sees it.
        right: it does.
        next: the paths with one more token, the most probable first; empty where none was asked
            for.
    """

    chance: float
    right: bool
    next: list[Branch] = field(default_factory=list)


Looked = list[tuple[float, bool]]  # probability of lookup's tokens; whether all up to it are right


@dataclass(frozen=True)
class Prices:
    """Of a round, in plain steps; `rate` is what a step is worth, in tokens."""

    v: Sequence[float]  # of calls with 1, 2, … rows
    call: float
    overhead: float
    rate: float
    acceptance: float  # of the draft's first choices

    def row(self, rows: int) -> float:
        """The tokens that one more row than these has to bring."""
        return self.rate * (self.v[rows] - self.v[rows - 1])


def prices(costs: Sequence[float]) -> tuple[list[float], float, float]:
    """v for up to 64 rows, c and o, from `--costs`."""
    five, nine, seventeen, call, overhead = costs
    slope = (seventeen - nine) / 8
    v = np.interp(
        range(1, 66), [1, 5, 9, 17, 65], [1, five, nine, seventeen, seventeen + 48 * slope]
    )
    return v.tolist(), call, overhead


Drafted = tuple[list[Branch], list[int]]  # the rows, and the rows of each call of the draft


def chain(root: Branch, at: Prices, candidates: int) -> Drafted:
    """First choices, with so many others beside each."""
    rows: list[Branch] = []
    calls: list[int] = []
    path = root
    while path.next:
        calls.append(1)
        path, *others = path.next
        rows.append(path)
        for other in others[:candidates]:
            if other.chance <= at.row(1 + len(rows)):
                break
            rows.append(other)
        cost = at.rate * at.call + at.row(1 + len(rows))
        if path.chance * at.acceptance <= cost:
            break
    return rows, calls


def tree(root: Branch, at: Prices, draft_row: float) -> Drafted:
    """At each depth the choices that are worth a row; those worth a row of the draft go on."""
    rows: list[Branch] = []
    calls: list[int] = []
    going_on = [root]
    while going_on:
        calls.append(len(going_on))
        choices = [choice for path in going_on for choice in path.next]
        choices.sort(key=lambda choice: -choice.chance)
        begun = len(rows)
        for choice in choices:
            if rows and (choice.chance <= at.row(1 + len(rows)) or len(rows) == MOST_ROWS):
                break
            rows.append(choice)
        going_on = _going_on(rows[begun:], len(rows), at, draft_row)
    return rows, calls


def _going_on(choices: Sequence[Branch], rows: int, at: Prices, draft_row: float) -> list[Branch]:
    """The choices of a depth that a call of the draft goes on from; none where it is not worth
    it."""
    call, one_more = at.rate * at.call, at.rate * at.call * draft_row
    found: list[Branch] = []
    gain = one_more - call  # the first row's price is the call's
    for choice in choices:
        more = choice.chance * at.acceptance - one_more - at.row(1 + rows + len(found))
        if more <= 0 or not choice.next:
            break
        gain += more
        found.append(choice)
    return found if gain > 0 else []


def accepted(root: Branch, rows: Sequence[Branch]) -> int:
    """How many drafted tokens of a round the target writes."""
    scored = set(map(id, rows))
    length, path = 0, root
    while right := [one for one in path.next if one.right and id(one) in scored]:
        (path,) = right
        length += 1
    return length


@dataclass
class Text:
    """A text of the target, and what was expected at each of its positions."""

    kind: str
    paths: list[Branch]
    looked_up: list[Looked]


@dataclass
class Replayed:
    """What rounds brought, and what they cost."""

    tokens: int = 0
    rounds: int = 0
    rows: int = 0
    calls: int = 0
    cost: float = 0.0

    def add(self, tokens: int, rows: int, calls: int, cost: float) -> None:
        self.tokens += tokens
        self.rounds += 1
        self.rows += rows
        self.calls += calls
        self.cost += cost

    @property
    def speed(self) -> float:
        return self.tokens / self.cost


def draft(way: str, root: Branch, at: Prices) -> tuple[list[Branch], list[int], float]:
    """The rows of a way, the calls of the draft, and the round's cost."""
    if way in CANDIDATES:
        rows, calls = chain(root, at, CANDIDATES[way])
        draft_row = 0.0
    else:
        draft_row = DRAFT_ROW if way == "tree" else 0.0
        rows, calls = tree(root, at, draft_row)
    drafting = at.call * sum(1 + draft_row * (width - 1) for width in calls)
    return rows, calls, at.v[len(rows)] + drafting + at.overhead


def replay(text: Text, way: str, at: Prices, lookup: bool) -> Replayed:
    """The rounds of a text."""
    done = Replayed()
    start, length = 0, len(text.paths)
    while start < length:
        found = _worth(text.looked_up[start], at) if lookup else []
        if found:
            right, calls, number = sum(agreed for _, agreed in found), 0, len(found)
            cost = at.v[number] + LOOKUP_OVERHEAD
        else:
            rows, of_draft, cost = draft(way, text.paths[start], at)
            right, calls, number = accepted(text.paths[start], rows), len(of_draft), len(rows)
        tokens = min(1 + right, length - start)
        done.add(tokens, 1 + number, calls, cost)
        start += tokens
    return done


def _worth(found: Looked, at: Prices) -> Looked:
    """Lookup's tokens that are worth a row; none where a round of them is not worth its time."""
    kept: Looked = []
    for chance, agreed in found:
        if chance <= at.row(1 + len(kept)):
            break
        kept.append((chance, agreed))
    expected = 1 + sum(chance for chance, _ in kept)
    cost = at.rate * (at.v[len(kept)] + LOOKUP_OVERHEAD)
    return kept if kept and expected > cost else []


def best(
    texts: Sequence[Text], way: str, costs: Sequence[float], acceptance: float, lookup: bool
) -> dict[str, Any]:
    """A way at its best rate: speed-ups by kind, and their geometric mean."""
    v, call, overhead = prices(costs)
    chosen: dict[str, Any] = {"mean": 0.0}
    for rate in RATES:
        kinds: dict[str, Replayed] = defaultdict(Replayed)
        for text in texts:
            done = replay(text, way, Prices(v, call, overhead, rate, acceptance), lookup)
            _add(kinds[text.kind], done)
        speeds = {kind: done.speed for kind, done in kinds.items()}
        mean = float(np.exp(np.mean(np.log(list(speeds.values())))))
        if mean > chosen["mean"]:
            chosen = {"mean": mean, "rate": rate, "speeds": speeds, **_per_round(kinds)}
    return {"way": way, "lookup": lookup, "costs": list(costs), **chosen}


def _add(total: Replayed, done: Replayed) -> None:
    for name, value in vars(done).items():
        setattr(total, name, getattr(total, name) + value)


def _per_round(kinds: dict[str, Replayed]) -> dict[str, Any]:
    """Tokens, rows and calls of the draft, for a call of the target."""
    return {
        "tokens_a_call": {kind: done.tokens / done.rounds for kind, done in kinds.items()},
        "rows_a_call": {kind: done.rows / done.rounds for kind, done in kinds.items()},
        "draft_calls": {kind: done.calls / done.rounds for kind, done in kinds.items()},
    }
