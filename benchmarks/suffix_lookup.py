"""Lookup by suffixes next to lookup of n-grams of three and two tokens, on six kinds of prompts.

    python benchmarks/suffix_lookup.py build/smollm2 --json FILE

Both draft for the same greedy and sampled texts, alone and in turns with the draft model, in one
run, prompt by prompt. Tokens per call are counts and do not depend on the machine's load, as long
as γ goes by fixed costs. `remembered` drafts for texts that were made once before, with another
seed where they are sampled: the earlier ones of all prompts are stored.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import edgespec
from edgespec.core.distribution import one_hot
from edgespec.core.draft import Proposal
from edgespec.core.randomness import Randomness
from edgespec.core.stats import Rate
from edgespec.costs.controller import controller
from edgespec.drafters import registry
from record import begin, write_result

PROMPTS = Path(__file__).with_name("prompts") / "six_kinds.json"
SAMPLED = {"temperature": 0.8, "top_p": 0.95}


class NgramLookup:
    """What followed the latest n-gram of three tokens, else of two, up to γ tokens."""

    seconds = 0.0

    def begin(self, prompt: Sequence[int]) -> None:
        self._history: list[int] = []
        self._follower: dict[tuple[int, ...], int] = {}
        self._read = 1
        self._extend(prompt)

    def propose(self, text: Sequence[int], gamma: int, randomness: Randomness) -> Proposal:
        self._extend(text[self._read :])
        self._read = len(text)
        for size in (3, 2):
            start = self._follower.get(tuple(self._history[-size:]))
            if start is not None:
                tokens = self._history[start : start + gamma]
                return Proposal(tokens, [one_hot(token) for token in tokens])
        return Proposal()

    def _extend(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            for size in (3, 2):
                if len(self._history) >= size:
                    self._follower[tuple(self._history[-size:])] = len(self._history)
            self._history.append(token)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pair")
    parser.add_argument("--target-format", default="int8")
    options, record = begin(parser)
    prompts = json.loads(PROMPTS.read_text(encoding="utf-8"))
    loading = {"threads": options.threads, "target_format": options.target_format}
    pair = edgespec.load(options.pair, **loading)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        filled = edgespec.load(options.pair, **loading, remember=folder)
        for sampling, parameters, earlier in (
            ("greedy", {}, {}),
            ("sampled", {**SAMPLED, "seed": 1}, {**SAMPLED, "seed": 2}),
        ):
            for prompt in prompts:
                generate(filled, prompt, draft=False, **earlier)
            remembering = edgespec.load(options.pair, **loading, remember=folder)
            found: dict[tuple[str, str], Rate] = defaultdict(Rate)
            for prompt in prompts:
                texts = set()
                for way, drafter, draft, used in ways(pair, remembering):
                    look_up_with(drafter)
                    result = generate(used, prompt, draft=draft, **parameters)
                    texts.add(tuple(result.token_ids))
                    found[prompt["kind"], way].add(result.stats)
                assert len(texts) == 1, "a draft changed the text"
            rows += [row(sampling, kind, way, rate, found) for (kind, way), rate in found.items()]
    for line in rows:
        print(
            f"{line['sampling']:8} {line['kind']:12} {line['way']:20} "
            f"{line['tokens_per_call']:.2f} tokens per call  α {line['acceptance']:.2f}  "
            f"×{line['ratio']:.2f}"
        )
    write_result(options, record, rows=rows)


def ways(pair: edgespec.Pair, remembering: edgespec.Pair) -> list[tuple[str, Any, Any, Any]]:
    """Name, builder of the lookup, `draft` and pair of each way to decode."""
    found = [("plain", SUFFIXES, False, pair)]
    for name in ("lookup", "both") if pair.draft is not None else ("lookup",):
        found.append((f"{name}, n-grams", n_grams, name, pair))
        found.append((f"{name}, suffixes", SUFFIXES, name, pair))
    return [*found, ("lookup, remembered", SUFFIXES, "lookup", remembering)]


def look_up_with(build: Any) -> None:
    """Makes "lookup", and "both" with it, of a drafter and its controller."""
    registry._lookup = build
    registry.DRAFTERS["lookup"] = replace(registry.DRAFTERS["lookup"], build=build)


def n_grams(setup: registry.DrafterSetup, _: float = 0.0) -> tuple[Any, Any]:
    return NgramLookup(), controller(setup.gamma, setup.costs["lookup"])


SUFFIXES = registry._lookup


def generate(pair: edgespec.Pair, prompt: dict[str, Any], **how: Any) -> edgespec.Generation:
    length = prompt["max_new_tokens"]
    return pair.generate(prompt["prompt"], max_new_tokens=length, chat=True, **how)


def row(
    sampling: str, kind: str, way: str, rate: Rate, found: dict[tuple[str, str], Rate]
) -> dict[str, Any]:
    return {
        "sampling": sampling,
        "kind": kind,
        "way": way,
        "tokens_per_call": rate.tokens_per_target_call,
        "acceptance": rate.acceptance_rate,
        "tokens_per_second": rate.tokens_per_second,
        "ratio": rate.over(found[kind, "plain"]),
    }


if __name__ == "__main__":
    main()
