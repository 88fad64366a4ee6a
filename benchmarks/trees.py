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
from collections import Counter
from collections.abc import Callable, Sequence
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
from peers.prompts import Request, first_of_kinds, of_file
from record import begin, write_result
from tree_rounds import WAYS, Branch, Looked, Text, best

PROMPTS = Path(__file__).with_name("prompts") / "six_kinds.json"
WIDTH, DEPTH = 6, 10  # choices after a path, and tokens of a path
LEAST, EXPANDED = 0.015, 40  # probability of a path that may go on, and paths of a position
AT_LEAST = 0.35  # of lookup's first token
SMOLLM2 = (1.06, 1.13, 1.63, 0.05, 0.13)  # v(5), v(9), v(17), c and o of int8 with AVX-512


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
    began = time.monotonic()
    for request in first_of_kinds(requests, options.each):
        texts += [written(pair, request, options, seed) for seed in range(options.seeds)]
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
