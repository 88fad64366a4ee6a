"""Drafts of one target next to each other and to plain decoding, by kinds of texts."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from edgespec.core.distribution_options import Sampling
from edgespec.core.stats import Rate, Stats
from edgespec.drafters.registry import available
from edgespec.errors import UsageError
from edgespec.measure.bench import NOTHING_TO_TIME
from edgespec.measure.remaining import Remaining
from edgespec.measure.round_costs import drafted_token_seconds, plain_step_seconds
from edgespec.pair.generation import Generation
from edgespec.pair.generation_options import GenerationOptions, sampling_options
from edgespec.pair.pair import Pair

__all__ = ["ComparedWay", "Request", "compare"]

logger = logging.getLogger("edgespec")

PLAIN = "plain"
WARM_UP = 8  # tokens


@dataclass(frozen=True)
class Request:
    """A text to generate: its prompt, of a kind that the user names."""

    kind: str
    prompt: str
    max_new_tokens: int

    def __post_init__(self) -> None:
        if self.max_new_tokens < 1:
            raise ValueError(f"max_new_tokens is {self.max_new_tokens}")


@dataclass(frozen=True)
class ComparedWay:
    """What one way to decode did on the texts of one kind.

    Attributes:
        way: "plain", "lookup", or a pair's name with its drafter.
        kind: of the texts; None is all of them.
        texts: how many were generated, repeats included.
        different: how many were not the plain text; 0 where the target is exact.
        acceptance_rate: α; None if nothing was drafted.
        cost: c, the median time of a drafted token over that of a plain step; None if nothing was
            drafted.
        tokens_per_target_call: over all rounds.
        decoding: median over texts of the speed over plain decoding, without the prompt and the
            first round; None where no text has a second one.
        whole: the same of whole generations, prompts included.
        tokens_per_second: of all texts together, as in `decoding`.
    """

    way: str
    kind: str | None
    texts: int
    different: int
    acceptance_rate: float | None
    cost: float | None
    tokens_per_target_call: float
    decoding: float | None
    whole: float
    tokens_per_second: float


@dataclass(frozen=True)
class _Way:
    """A pair, and the drafter it is used with; None decodes plainly."""

    pair: Pair
    drafter: str | None


@dataclass(frozen=True)
class _Run:
    """One prompt, answered in all ways."""

    kind: str
    made: Mapping[str, Generation]


def compare(
    pairs: Mapping[str, Pair],
    requests: Sequence[Request],
    *,
    sampling: Sampling,
    chat: bool,
    gamma: int | str = "auto",
    repeats: int = 1,
) -> list[ComparedWay]:
    """Answers prompts plainly, with lookup and with the draft model of each pair.

    A draft model runs alone ("model") and with lookup ("both"). Each prompt is answered in all
    ways before the next one, in an order that changes from prompt to prompt, so that a drift of
    the machine affects all ways.

    Args:
        pairs: name to pair, all with the same target (`load_same_target`); plain decoding and
            lookup run in the first.
        sampling: with a temperature each prompt of each repeat has its own seed, the same in all
            ways.
        chat: put the chat format around the prompts.
        gamma: tokens drafted a round; "auto" drafts nothing where that does not pay.

    Returns:
        A row for each way of each kind, kinds in the order of the requests, and for each way of
        all kinds, if there are several.

    Raises:
        UsageError: no plain text has a second token.
    """
    ways = _ways(pairs)
    common = sampling_options(sampling) | {"chat": chat, "gamma": gamma}
    runs: list[_Run] = []
    for way in ways.values():  # the first calls also allocate memory
        _answer(way, replace(requests[0], max_new_tokens=WARM_UP), common, seed=0)
    remaining = Remaining(repeats * len(requests))
    for repeat in range(repeats):
        for index, request in enumerate(requests):
            logger.info("prompt %d of %d, %s", index + 1, len(requests), request.kind)
            turn = len(runs)
            names = list(ways)
            # Shifted each repeat, too: else with as many prompts as ways each would keep its order.
            first = (turn + repeat) % len(names)
            made = {
                name: _answer(ways[name], request, common, seed=turn)
                for name in names[first:] + names[:first]
            }
            runs.append(_Run(request.kind, made))
            remaining.part_done()
    if all(len(run.made[PLAIN].token_ids) == 1 for run in runs):
        raise UsageError(NOTHING_TO_TIME)
    kinds: list[str | None] = list(dict.fromkeys(request.kind for request in requests))
    return [
        _row(name, kind, [run for run in runs if kind in (None, run.kind)])
        for kind in ([*kinds, None] if len(kinds) > 1 else kinds)
        for name in ways
    ]


def _ways(pairs: Mapping[str, Pair]) -> dict[str, _Way]:
    first = next(iter(pairs.values()))
    ways = {PLAIN: _Way(first, None)}
    for named in available(has_draft_model=False):
        ways[named.name] = _Way(first, named.name)
    for name, pair in pairs.items():
        for named in available(pair.draft is not None):
            if named.uses_model:
                ways[f"{name}, {named.name}"] = _Way(pair, named.name)
    return ways


def _answer(way: _Way, request: Request, common: GenerationOptions, *, seed: int) -> Generation:
    options: GenerationOptions = {
        "draft": way.drafter or False,
        "max_new_tokens": request.max_new_tokens,
        "seed": seed,
    }
    return way.pair.generate(request.prompt, **(common | options))


def _row(way: str, kind: str | None, runs: Sequence[_Run]) -> ComparedWay:
    made = [run.made[way] for run in runs]
    plain = [run.made[PLAIN] for run in runs]
    rate = Rate()
    for text in made:
        rate.add(text.stats)
    stats, plain_stats = [text.stats for text in made], [text.stats for text in plain]
    decoding = _ratios([_decoding(one) for one in stats], [_decoding(one) for one in plain_stats])
    whole = _ratios([_whole(one) for one in stats], [_whole(one) for one in plain_stats])
    token = drafted_token_seconds(stats)
    return ComparedWay(
        way=way,
        kind=kind,
        texts=len(made),
        different=sum(a.token_ids != b.token_ids for a, b in zip(made, plain, strict=True)),
        acceptance_rate=rate.acceptance_rate if rate.evaluated else None,
        cost=None if token is None else token / plain_step_seconds(plain_stats),
        tokens_per_target_call=rate.tokens_per_target_call,
        decoding=median(decoding) if decoding else None,
        whole=median(whole),
        tokens_per_second=rate.tokens_per_second,
    )


def _decoding(stats: Stats) -> float:
    return stats.decode_tokens_per_second


def _whole(stats: Stats) -> float:
    return stats.tokens_per_second


def _ratios(speeds: Sequence[float], plain: Sequence[float]) -> list[float]:
    """Speeds over plain ones, of the texts that have both."""
    return [a / b for a, b in zip(speeds, plain, strict=True) if a and b]
