"""What llama.cpp's lookup proposes beside edgespec's, prompt by prompt: greedy texts are replayed.

    python benchmarks/lookup_proposals.py build/smollm2 --target-format int4

`n-grams` is `ngram-simple` of llama.cpp and ik_llama.cpp: what followed the latest occurrence of
the last three tokens, eight tokens of it, in every round. `lookup` is edgespec's with γ auto, and
`both` the default, with the draft model. γ goes by fixed `--costs`, and a round costs
v(rows) + c · drafted + o by them: nothing is timed, so the load of the machine does not matter.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import edgespec
from edgespec.core.distribution import one_hot
from edgespec.core.distribution_options import Sampling
from edgespec.core.draft import Drafter, Proposal, proposed
from edgespec.core.model import common_length
from edgespec.core.randomness import Randomness, Seeded
from edgespec.core.requests import computed
from edgespec.core.sampling import SamplingProcessor
from edgespec.core.stats import Stats
from edgespec.costs.controller import Controller, Fixed
from edgespec.costs.cost_model import Costs
from edgespec.drafters.suffix_lookup import SuffixLookup
from edgespec.pair.drafting import DraftChoice
from peers.prompts import of_file
from record import begin, write_result

PROMPTS = Path(__file__).with_name("prompts") / "six_kinds.json"
SIZE, LENGTH = 3, 8  # of the n-gram, and of what follows it
INT4 = (1.11, 1.54, 2.48, 0.07, 0.08, 0.17)  # AVX-512: v(5), v(9), v(17), c, o without and with c


class NgramSimple:
    """What followed the latest n-gram that is the text's last one, at least as many tokens as it
    has."""

    seconds = 0.0

    def begin(self, prompt: Sequence[int]) -> None:
        self._prompt = list(prompt)

    def propose(self, text: Sequence[int], gamma: int, randomness: Randomness) -> Proposal:
        tokens = [*self._prompt, *text[1:]]
        pattern, known = tokens[-SIZE:], tokens[:-1]
        for place in range(len(known) - SIZE - 1, 0, -1):
            if known[place : place + SIZE] == pattern:
                found = known[place + SIZE :][: min(LENGTH, gamma)]
                enough = len(found) >= min(SIZE, gamma)
                return Proposal(found, [one_hot(one) for one in found]) if enough else Proposal()
        return Proposal()


def costs_of(numbers: Sequence[float]) -> dict[str, Costs]:
    """Costs by the name of the drafter, from `--costs`."""
    five, nine, seventeen, call, without, with_model = numbers
    v = np.interp(range(1, 18), [1, 5, 9, 17], [1, five, nine, seventeen]).tolist()
    return {"lookup": Costs(v, 0.0, without), "model": Costs(v, call, with_model)}


def replayed(
    drafter: Drafter, gammas: Controller, prompt: Sequence[int], text: Sequence[int], costs: Costs
) -> dict[str, float]:
    """Rounds of a drafter whose tokens are certain, along a text."""
    drafter.begin(prompt)
    start = calls = drafted = right = 0
    cost = 0.0
    while start < len(text):
        most = min(gammas.gamma(), len(text) - start - 1)
        known = [prompt[-1], *text[:start]]
        proposal = computed(proposed(drafter, known, most, Seeded(0))) if most else Proposal()
        tokens = proposal.tokens
        agreed = common_length(tokens, text[start:])
        gammas.observe(len(tokens), min(agreed + 1, len(tokens)), agreed, 0)
        cost += costs.round(len(tokens))
        start, calls = start + agreed + 1, calls + 1
        drafted, right = drafted + len(tokens), right + agreed
    return {"calls": calls, "drafted": drafted, "accepted": right, "cost": cost}


def of_stats(stats: Stats, costs: dict[str, Costs]) -> dict[str, float]:
    """The same of rounds that were run."""
    cost = stats.candidates * costs["model"].marginal_cost(4)
    for drafted, _, drafting in stats.rounds:
        cost += costs["model" if drafting else "lookup"].round(drafted)
    return {
        "calls": stats.target_calls,
        "drafted": stats.drafted + stats.candidates,
        "accepted": stats.accepted + stats.committed,
        "cost": cost,
    }


def compared(prompt: Sequence[int], text: Sequence[int]) -> Counter[str]:
    """At each position where the n-gram proposes: tokens that it has right and that lookup has
    right, and why lookup has fewer."""
    n_grams, lookup = NgramSimple(), SuffixLookup()
    found: Counter[str] = Counter()
    for drafter in (n_grams, lookup):
        drafter.begin(prompt)
    for start in range(len(text)):
        known = [prompt[-1], *text[:start]]
        ours = lookup.propose(known, LENGTH, Seeded(0)).tokens
        theirs = n_grams.propose(known, LENGTH, Seeded(0)).tokens
        if not theirs:
            continue
        right = [common_length(tokens, text[start:]) for tokens in (theirs, ours)]
        found["positions"] += 1
        found["n-grams right"] += right[0]
        found["lookup right"] += right[1]
        found["n-grams more"] += right[0] > right[1]
        found["lookup more"] += right[0] < right[1]
    return found


def row(
    pair: edgespec.Pair, prompt: list[int], limit: int, numbers: Sequence[float]
) -> dict[str, Any]:
    """One prompt with every way."""
    costs = costs_of(numbers)
    common: dict[str, Any] = {"max_new_tokens": limit, "temperature": 0}
    text = pair.generate(prompt, draft=False, **common).token_ids
    process = SamplingProcessor(Sampling())
    choice = DraftChoice("lookup", "auto", rule=None, keeps_text=False)
    lookup, gammas = pair.drafting.drafter(choice, process)
    assert lookup is not None
    found = {
        "n-grams": replayed(NgramSimple(), Fixed(LENGTH), prompt, text, costs["lookup"]),
        "lookup": replayed(lookup, gammas, prompt, text, costs["lookup"]),
    }
    for way in ("model", "both"):
        made = pair.generate(prompt, draft=way, **common)
        assert made.token_ids == text, "a draft changed the text"
        found[way] = of_stats(made.stats, costs)
    return {"tokens": len(text), "ways": found, "compared": dict(compared(prompt, text))}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("pair", type=Path)
    parser.add_argument("--target-format", default="int4")
    parser.add_argument("--prompts", type=Path, nargs="+", default=[PROMPTS])
    parser.add_argument("--kinds", nargs="*")
    names = ("V5", "V9", "V17", "C", "O", "O_MODEL")
    parser.add_argument("--costs", type=float, nargs=6, default=INT4, metavar=names)
    options, record = begin(parser)
    pair = edgespec.load(options.pair, threads=options.threads, target_format=options.target_format)
    pair.use_costs({**pair.costs, **costs_of(options.costs)})
    rows: list[dict[str, Any]] = []
    for request in (request for file in options.prompts for request in of_file(file)):
        if options.kinds and request.kind not in options.kinds:
            continue
        prompt = pair.encode(request.prompt, chat=True)
        made = row(pair, prompt, request.max_new_tokens, options.costs)
        rows.append({"kind": request.kind, **made})
        print(request.kind, line(rows[-1:]), made["compared"], flush=True)
    by_kind: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for one in rows:
        by_kind[one["kind"]].append(one)
    for kind, some in by_kind.items():
        print(f"{kind} ({len(some)})", line(some))
    write_result(options, record, rows=rows)


def line(rows: Sequence[dict[str, Any]]) -> str:
    """Tokens a call and decoding over plain of each way, over some prompts."""
    tokens = sum(row["tokens"] for row in rows)
    parts = []
    for way in rows[0]["ways"]:
        calls, cost = (sum(row["ways"][way][name] for row in rows) for name in ("calls", "cost"))
        parts.append(f"{way} {tokens / calls:.2f} ×{tokens / cost:.2f}")
    return f"{tokens} tokens; " + "; ".join(parts)


if __name__ == "__main__":
    main()
