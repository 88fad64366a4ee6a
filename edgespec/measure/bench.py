"""Speed of a pair beside plain decoding of the same target, on real or synthetic agreement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgespec.core.controller import Fixed
from edgespec.core.decode import plain, speculate
from edgespec.core.draft import Proposal
from edgespec.core.randomness import Randomness, Seeded
from edgespec.core.sampling import Sampling
from edgespec.core.stats import Rate, Stats, counted
from edgespec.core.verification import Rule, TargetDistributions, VerificationResult
from edgespec.drafters.model_drafter import ModelDrafter
from edgespec.errors import UsageError
from edgespec.pair.pair import Pair

__all__ = ["NOTHING_TO_TIME", "BenchRow", "bench", "bench_synthetic", "synthetic_rule"]

SYNTHETIC_TEXTS = 3
NOTHING_TO_TIME = (
    "the target ends each text after one token, so there is nothing to time; give other prompts "
    "(--text), or --chat or --no-chat"
)


@dataclass(frozen=True)
class BenchRow:
    """One way to decode, over plain decoding in the same run.

    Attributes:
        way: what was run.
        synthetic: acceptance was decreed, not found: the text means nothing.
        tokens_per_second, ratio: behind each text's first round.
        acceptance_rate: α found, or decreed.
        tokens_per_target_call: of all rounds.
    """

    way: str
    synthetic: bool
    tokens: int
    tokens_per_second: float
    ratio: float
    acceptance_rate: float
    tokens_per_target_call: float
    loop_share: float


def bench(
    pair: Pair,
    prompts: Sequence[str],
    *,
    sampling: Sampling,
    max_new_tokens: int,
    gammas: Sequence[int | str],
    chat: bool,
) -> list[BenchRow]:
    """Real prompts: plain decoding, prompt lookup and the draft model, taking turns."""
    ways: dict[str, dict[str, Any]] = {"plain": {"draft": False}}
    for kind in ("lookup", "model", "both"):
        if kind == "lookup" or pair.draft is not None:
            ways |= {f"{kind}, γ {gamma}": {"draft": kind, "gamma": gamma} for gamma in gammas}
    options: dict[str, Any] = {
        "max_new_tokens": max_new_tokens,
        **sampling.options,
        "seed": 0,
        "chat": chat,
    }
    totals = {name: Rate() for name in ways}
    pair.generate(prompts[0], **options)  # the first calls also allocate
    for prompt in prompts:
        for name, way in ways.items():
            totals[name].add(pair.generate(prompt, **options, **way).stats)
    if not totals["plain"].tokens:
        raise UsageError(NOTHING_TO_TIME)
    return [_row(name, rate, totals["plain"], synthetic=False) for name, rate in totals.items()]


def bench_synthetic(
    pair: Pair, acceptance: float, *, max_new_tokens: int, gammas: Sequence[int]
) -> list[BenchRow]:
    """Machine cost without model agreement: each drafted token is accepted with the given probability.

    Raises:
        UsageError: no draft model, or a probability that is none.
    """
    if pair.draft is None:
        raise UsageError("the pair has no draft model; synthetic acceptance needs one")
    if not 0 <= acceptance <= 1:
        raise UsageError(f"acceptance is {acceptance}; give a probability from 0 to 1")
    prompt = list(range(3, 19))
    totals = {"plain": Rate(), **{f"model, γ {gamma}": Rate() for gamma in gammas}}
    process = Sampling().processor()
    shared: dict[str, Any] = {
        "process": process,
        "max_new_tokens": max_new_tokens,
        "ends": lambda _token: False,
    }
    for seed in range(SYNTHETIC_TEXTS):
        randomness = Seeded(seed)
        texts = {"plain": plain(pair.target, prompt, randomness=randomness, **shared)}
        for gamma in gammas:
            texts[f"model, γ {gamma}"] = speculate(
                pair.target,
                ModelDrafter(pair.draft, process, pair.vocabulary),
                prompt,
                rule=synthetic_rule(acceptance),
                gamma=Fixed(gamma),
                randomness=randomness,
                **shared,
            )
        for name, rounds in texts.items():
            stats = Stats()
            for _ in counted(rounds, stats, pair.seconds):
                pass
            totals[name].add(stats)
    return [_row(name, rate, totals["plain"], synthetic=True) for name, rate in totals.items()]


def _row(way: str, rate: Rate, plain_rate: Rate, *, synthetic: bool) -> BenchRow:
    return BenchRow(
        way=way,
        synthetic=synthetic,
        tokens=rate.all_tokens,
        tokens_per_second=rate.tokens_per_second,
        ratio=rate.over(plain_rate),
        acceptance_rate=rate.acceptance_rate,
        tokens_per_target_call=rate.tokens_per_target_call,
        loop_share=rate.loop_share,
    )


def synthetic_rule(acceptance: float) -> Rule:
    """Accepts each token with a decreed probability, whatever p and q say: not exact, for timing."""

    def rule(
        proposal: Proposal, p: TargetDistributions, randomness: Randomness
    ) -> VerificationResult:
        for place in range(len(proposal.tokens)):
            if not randomness.bernoulli(acceptance):
                return VerificationResult(place, place + 1, p[place])
        drafted = len(proposal.tokens)
        return VerificationResult(drafted, drafted, p[drafted])

    return rule
