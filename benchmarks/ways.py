"""Ways to answer prompts, timed in turns, for drafters.py and draft_formats.py."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import edgespec
from edgespec.core.stats import Stats
from peers.prompts import first_of_kinds, of_file

PLAIN = "plain"  # the way that all others are compared with
PROMPTS = Path(__file__).with_name("prompts") / "six_kinds.json"


class Way(NamedTuple):
    """A pair, and what its `generate` is given beside the prompt, its limit and a seed."""

    pair: edgespec.Pair
    options: Mapping[str, Any]


class Speed(NamedTuple):
    """Tokens a second without the prompt and the first round, and of the whole generation; and
    tokens of a call of the target, which are 1 of plain decoding."""

    decoding: float
    whole: float
    per_call: float


Run = dict[str, Speed]  # of one prompt in every way


def add_prompts(parser: argparse.ArgumentParser) -> None:
    """The options of `answered`."""
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--each", type=int, help="use so many prompts of each kind")
    parser.add_argument("--prompts", type=Path, nargs="+", default=[PROMPTS])


def answered(
    ways: Mapping[str, Way], options: argparse.Namespace
) -> tuple[dict[str, list[Run]], int]:
    """Answers each prompt in every way before the next one, in an order that changes.

    Returns the speeds for each kind of prompt, and how many texts are not the plain one.
    """
    runs: dict[str, list[Run]] = {}
    different = 0
    names = list(ways)
    requests = [request for file in options.prompts for request in of_file(file)]
    for turn, request in enumerate(first_of_kinds(requests, options.each)):
        for repeat in range(options.repeats):
            first = (turn + repeat) % len(names)
            run, texts = {}, {}
            for name in names[first:] + names[:first]:
                made = ways[name].pair.generate(
                    request.prompt,
                    chat=True,
                    max_new_tokens=request.max_new_tokens,
                    seed=1000 * repeat + turn,
                    **ways[name].options,
                )
                run[name], texts[name] = _speed(made.stats), made.token_ids
            runs.setdefault(request.kind, []).append(run)
            different += sum(text != texts[PLAIN] for text in texts.values())
    return runs, different


def over(runs: Sequence[Run], way: str, other: str, field: str) -> float:
    """The median of a way's speed over another's."""
    ratios: list[float] = [getattr(run[way], field) / getattr(run[other], field) for run in runs]
    return median(ratios)


def _speed(stats: Stats) -> Speed:
    return Speed(
        stats.decode_tokens_per_second, stats.tokens_per_second, stats.tokens_per_target_call
    )
