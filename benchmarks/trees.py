"""What trees of drafted tokens would bring: texts of the target are replayed, nothing is timed.

    python benchmarks/trees.py build/smollm2 --target-format int8 --lookup
    python benchmarks/trees.py build/smollm2 --target-format int8 --temperature 0.8 --top-p 0.95
    python benchmarks/trees.py build/qwen --prompts benchmarks/prompts/coding.json \\
        --costs 1.24 1.94 3.44 .37 .02 --least .1

The target writes every text plainly. At each of its positions the draft then says what it expects,
along all paths that it finds probable. Rounds are replayed from that in several ways:

    chain       the first choices, as long as the draft is sure enough
    candidates  and second and third choices beside them, of which no draft goes on (the default)
    wide        the same with up to five others
    tree        any choices at each depth; those worth it share one call of the draft, and go on
    free        the tree, where a call of the draft has any number of rows for the price of one

A token is drafted where its probability, as the draft sees it, is worth more than its time; what
time is worth is one number, the one that is best for all texts, way by way. `--lookup`: prompt
lookup drafts where it expects more than that. A round costs v(rows) + c · calls + o.
"""

from __future__ import annotations

import argparse
import heapq
import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, count
from pathlib import Path
from typing import Any

import numpy as np

import edgespec
from edgespec.core.array_types import Logits
from edgespec.core.distribution_options import Sampling
from edgespec.core.randomness import Coupled, Seeded
from edgespec.core.sampling import SamplingProcessor
from edgespec.drafters.suffix_lookup import SuffixLookup
from peers.prompts import Request, of_file
from record import begin, write_result

PROMPTS = Path(__file__).with_name("prompts") / "six_kinds.json"
WIDTH, DEPTH = 6, 10  # choices after a path, and tokens of a path
LEAST, EXPANDED = 0.015, 40  # probability of a path that may go on, and paths of a position
AT_LEAST = 0.35  # of lookup's first token
CANDIDATES = {"chain": 0, "candidates": 2, "wide": 5}  # beside a drafted token
MOST_ROWS = 40  # of a call, besides the first
DRAFT_ROW = 0.08  # what a further row adds to a call of the draft, in calls
LOOKUP_OVERHEAD = 0.06  # of a round that prompt lookup drafts, in steps
SMOLLM2 = (1.06, 1.13, 1.63, 0.05, 0.13)  # v(5), v(9), v(17), c and o of int8 with AVX-512
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


Guess = Callable[[Logits, int, int], list[tuple[int, float]]]


class Draft:
    """A pair's draft along a text that the target wrote."""

    def __init__(self, pair: edgespec.Pair, prompt: Sequence[int], text: Sequence[int]) -> None:
        assert pair.draft is not None
        assert pair.manifest.draft is not None
        self._pair, self._target, self._draft, self._text = pair, pair.target, pair.draft, text
        self._takes_states = pair.manifest.draft.features > 0
        self._target.score([self._target.prefill(prompt), *text[:-1]])
        pending = self._draft.prefill(pair.vocabulary.prompt(prompt, None)[0])
        self._read = [pending, *pair.vocabulary.to_draft_ids(text[:-1])]
        self._begins = self._target.length - len(text), self._draft.length
        self._draft.score(self._read)
        self._last: list[int] = []

    def paths(self, start: int, guess: Guess, least: float) -> Branch:
        """What may follow a position; from the last to the first, since the target is rewound."""
        self._target.rewind(self._begins[0] + start)
        root = Branch(1.0, True)
        order = count()
        waiting: list[tuple[float, int, Branch, list[int]]] = [(-1.0, next(order), root, [])]
        for _ in range(EXPANDED):
            if not waiting:
                break
            _, _, path, tokens = heapq.heappop(waiting)
            actual = (
                self._text[start + len(tokens)] if start + len(tokens) < len(self._text) else -1
            )
            for token, share in guess(self._logits(start, tokens), start, len(tokens)):
                longer = Branch(path.chance * share, path.right and token == actual)
                path.next.append(longer)
                if longer.chance >= least and len(tokens) + 1 < DEPTH:
                    entry = (-longer.chance, next(order), longer, [*tokens, token])
                    heapq.heappush(waiting, entry)
        return root

    def _logits(self, start: int, tokens: Sequence[int]) -> Logits:
        ids = self._pair.vocabulary.to_draft_ids(tokens)
        goes_on = bool(ids) and self._last == ids[:-1]
        self._last = ids
        if goes_on:
            return self._scored(ids[-1:])
        self._draft.rewind(self._begins[1] + start)
        if not self._takes_states:
            return self._scored([self._read[start], *ids])
        for token in [self._read[start], *ids]:  # later ones take the head's own states
            logits = self._scored([token])
        return logits

    def _scored(self, ids: Sequence[int]) -> Logits:
        last: Logits = self._draft.score(ids)[-1]
        return last


def most_probable(pair: edgespec.Pair) -> Guess:
    """The draft's choices in greedy text."""

    def guess(logits: Logits, start: int, ahead: int) -> list[tuple[int, float]]:
        weights = np.exp(logits - logits.max())
        best = np.argpartition(weights, -WIDTH)[-WIDTH:]
        best = best[np.argsort(-weights[best])]
        shares: list[float] = (weights[best] / weights.sum(dtype=np.float64)).tolist()
        return list(zip(pair.vocabulary.to_target_ids(best.tolist()), shares, strict=True))

    return guess


def by_noise(pair: edgespec.Pair, sampling: Sampling, randomness: Coupled) -> Guess:
    """The draft's choices by the noise of each position."""
    process = SamplingProcessor(sampling)

    def guess(logits: Logits, start: int, ahead: int) -> list[tuple[int, float]]:
        q = pair.vocabulary.distribution(process, logits)
        randomness.at(start)
        return randomness.ranked(q, ahead)[:WIDTH]

    return guess


Looked = list[
    tuple[float, bool]
]  # lookup's tokens: how probable, and whether all up to it are right


def looked_up(prompt: Sequence[int], text: Sequence[int], length: int) -> list[Looked]:
    """What lookup proposes at each position."""
    chances: list[float] = []

    def record(chance: float, rows: int) -> bool:
        chances.append(chance)
        return True

    lookup = SuffixLookup(worth=record, at_least=AT_LEAST)
    lookup.begin(prompt)
    found = []
    for start in range(len(text)):
        chances.clear()
        tokens = lookup.propose([prompt[-1], *text[:start]], length, Seeded(0)).tokens
        right = [a == b for a, b in zip(tokens, text[start:], strict=False)]
        right += [False] * (len(tokens) - len(right))
        agreed: list[bool] = list(accumulate(right, lambda before, now: before and now))
        found.append(list(zip(chances[: len(tokens)], agreed, strict=True)))
    return found


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


def second_choices(texts: Sequence[Text]) -> dict[str, Any]:
    """Where the first choices end to be right: which choice is, and whether the first one after it
    is, too; shares of all positions."""
    ranks: Counter[int] = Counter()
    right_after: Counter[int] = Counter()
    for text in texts:
        for root in text.paths:
            path = root
            while path.next and path.next[0].right:
                path = path.next[0]
            if not path.next:
                continue
            rank = next((n for n, one in enumerate(path.next) if one.right), WIDTH)
            ranks[rank + 1] += 1
            if rank < WIDTH and path.next[rank].next:
                right_after[rank + 1] += path.next[rank].next[0].right
    total = ranks.total()
    return {
        "positions": total,
        "right choice": {rank: ranks[rank] / total for rank in range(2, WIDTH + 2)},
        "and the next": {rank: right_after[rank] / total for rank in range(2, WIDTH + 1)},
    }


def written(pair: edgespec.Pair, request: Request, options: argparse.Namespace, seed: int) -> Text:
    """A text of the target, with what the draft and lookup expect at each position."""
    prompt = pair.encode(request.prompt, chat=True)
    sampling = Sampling(temperature=options.temperature, top_p=options.top_p)
    text = pair.generate(
        prompt,
        draft=False,
        max_new_tokens=min(options.limit, request.max_new_tokens),
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        seed=seed,
    ).token_ids
    noise = Coupled(seed, len(prompt))
    guess = by_noise(pair, sampling, noise) if sampling.temperature else most_probable(pair)
    drafting = Draft(pair, prompt, text)
    paths = [drafting.paths(start, guess, options.least) for start in reversed(range(len(text)))]
    return Text(request.kind, paths[::-1], looked_up(prompt, text, DEPTH + 6))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("pair", type=Path)
    parser.add_argument("--target-format")
    parser.add_argument("--prompts", type=Path, nargs="+", default=[PROMPTS])
    parser.add_argument("--each", type=int, help="use so many prompts of each kind")
    parser.add_argument("--limit", type=int, default=96, help="of new tokens")
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--top-p", type=float, default=1.0)
    parser.add_argument("--seeds", type=int, default=1, help="of sampled text")
    parser.add_argument("--least", type=float, default=LEAST, help="chance of a path that goes on")
    parser.add_argument("--lookup", action="store_true")
    parser.add_argument(
        "--costs", type=float, nargs=5, action="append", metavar=("V5", "V9", "V17", "C", "O")
    )
    options, record = begin(parser)
    pair = edgespec.load(options.pair, threads=options.threads, target_format=options.target_format)
    requests = [request for file in options.prompts for request in of_file(file)]
    texts: list[Text] = []
    kinds: Counter[str] = Counter()
    began = time.monotonic()
    for request in requests:
        kinds[request.kind] += 1
        if options.each is None or kinds[request.kind] <= options.each:
            seeds = range(options.seeds)
            texts += [written(pair, request, options, seed) for seed in seeds]
            print(f"{request.kind}: {time.monotonic() - began:.0f} s", flush=True)
    acceptance = float(np.mean([root.next[0].right for text in texts for root in text.paths]))
    second = second_choices(texts)
    print(f"{len(texts)} texts, acceptance {acceptance:.3f}; {json.dumps(second)}")
    rows = []
    for costs in options.costs or [SMOLLM2]:
        for lookup in (False, True) if options.lookup else (False,):
            for way in WAYS:
                rows.append(best(texts, way, costs, acceptance, lookup))
                print(_rounded(rows[-1]), flush=True)
    write_result(options, record, acceptance=acceptance, second=second, rows=rows)


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    return round(value, 3) if isinstance(value, float) else value


if __name__ == "__main__":
    main()
