"""Speed of a pair over plain decoding of the same target, with real or synthetic acceptance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from edgespec.core.decode import Round, decoded, plain, speculate
from edgespec.core.distribution_options import Sampling
from edgespec.core.draft import Proposal
from edgespec.core.model import Model
from edgespec.core.randomness import Randomness, Seeded
from edgespec.core.sampling import SamplingProcessor
from edgespec.core.stats import Rate, Stats, counted
from edgespec.core.verification import Rule, TargetDistributions, VerificationResult
from edgespec.costs.controller import Fixed
from edgespec.drafters.model_drafter import ModelDrafter
from edgespec.drafters.registry import available
from edgespec.errors import UsageError
from edgespec.measure.remaining import Remaining
from edgespec.pair.generation_options import GenerationOptions, sampling_options
from edgespec.pair.pair import Pair

__all__ = ["NOTHING_TO_TIME", "BenchRow", "bench", "bench_synthetic", "synthetic_rule"]

SYNTHETIC_TEXTS = 3
SYNTHETIC_PROMPT = range(3, 19)  # token ids
NOTHING_TO_TIME = (
    "the target ends each text after one token, so there is nothing to time; give other prompts "
    "(--text), or --chat or --no-chat"
)


@dataclass(frozen=True)
class BenchRow:
    """One way to decode, and its speed over plain decoding in the same run.

    Attributes:
        way: name of the drafter and γ, or "plain".
        synthetic: acceptance was given, not measured: the text means nothing.
        tokens_per_second, ratio: without each text's first round.
        acceptance_rate: α, measured or given.
        tokens_per_target_call: over all rounds.
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
    """Times plain decoding and every drafter of the pair on real prompts, taking turns."""
    ways: dict[str, GenerationOptions] = {"plain": {"draft": False}}
    for named in available(pair.draft is not None):
        for gamma in gammas:
            ways[f"{named.name}, γ {gamma}"] = {"draft": named.name, "gamma": gamma}
    options = sampling_options(sampling) | {
        "max_new_tokens": max_new_tokens,
        "seed": 0,
        "chat": chat,
    }
    totals = {name: Rate() for name in ways}
    pair.generate(prompts[0], **options)  # the first calls also allocate memory
    remaining = Remaining(len(prompts) * len(ways))
    for prompt in prompts:
        for name, way in ways.items():
            totals[name].add(pair.generate(prompt, **(options | way)).stats)
            remaining.part_done()
    if not totals["plain"].tokens:
        raise UsageError(NOTHING_TO_TIME)
    return [_row(name, rate, totals["plain"], synthetic=False) for name, rate in totals.items()]


def bench_synthetic(
    pair: Pair, acceptance: float, *, max_new_tokens: int, gammas: Sequence[int]
) -> list[BenchRow]:
    """Times the machine alone: each drafted token is accepted with the given probability.

    Raises:
        UsageError: the pair has no draft model, or `acceptance` is no probability.
    """
    if pair.draft is None:
        raise UsageError("the pair has no draft model; synthetic acceptance needs one")
    if not 0 <= acceptance <= 1:
        raise UsageError(f"acceptance is {acceptance}; give a probability from 0 to 1")
    totals = {"plain": Rate(), **{f"model, γ {gamma}": Rate() for gamma in gammas}}
    rule = synthetic_rule(acceptance)
    for seed in range(SYNTHETIC_TEXTS):
        texts = {"plain": _plain_rounds(pair, seed, max_new_tokens)}
        for gamma in gammas:
            way = f"model, γ {gamma}"
            texts[way] = _drafted_rounds(pair, pair.draft, seed, max_new_tokens, rule, gamma)
        for name, rounds in texts.items():
            stats = Stats()
            for _ in counted(rounds, stats, pair.seconds):
                pass
            totals[name].add(stats)
    return [_row(name, rate, totals["plain"], synthetic=True) for name, rate in totals.items()]


def _plain_rounds(pair: Pair, seed: int, max_new_tokens: int) -> Iterator[Round]:
    return decoded(
        plain(
            pair.target,
            SYNTHETIC_PROMPT,
            process=SamplingProcessor(Sampling()),
            randomness=Seeded(seed),
            max_new_tokens=max_new_tokens,
            ends=_never,
        )
    )


def _drafted_rounds(
    pair: Pair, draft: Model, seed: int, max_new_tokens: int, rule: Rule, gamma: int
) -> Iterator[Round]:
    process = SamplingProcessor(Sampling())
    return decoded(
        speculate(
            pair.target,
            ModelDrafter(draft, process, pair.vocabulary),
            SYNTHETIC_PROMPT,
            process=process,
            rule=rule,
            gamma=Fixed(gamma),
            randomness=Seeded(seed),
            max_new_tokens=max_new_tokens,
            ends=_never,
        )
    )


def _never(_token: int) -> bool:
    """No token ends a synthetic text."""
    return False


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
    """Accepts each token with a given probability, whatever p and q are: for timing, not exact."""

    def rule(
        proposal: Proposal, p: TargetDistributions, randomness: Randomness
    ) -> VerificationResult:
        for index in range(len(proposal.tokens)):
            if not randomness.bernoulli(acceptance):
                return VerificationResult(index, index + 1, p[index])
        drafted = len(proposal.tokens)
        return VerificationResult(drafted, drafted, p[drafted])

    return rule
