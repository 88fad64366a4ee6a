"""Whether sampled texts with a draft have the target's distribution."""

from __future__ import annotations

import math
import time
from collections import Counter

from edgespec.pair.pair import Pair

FALSE_ALARM = 1e-6  # how often a correct sampler fails
TOP = 3  # tokens of each position that may be sampled


def check_law(pair: Pair, prompt: str, samples: int) -> tuple[bool, str]:
    """Whether n · KL(seen, exact) of the first two tokens is below what chance exceeds that rarely.

    Returns:
        With it, what was seen.
    """
    began, accepted = time.perf_counter(), 0
    options = {"temperature": 1.0, "top_k": TOP, "ignore_eos": True, "max_new_tokens": 3}
    found: Counter[tuple[int, ...]] = Counter()
    for seed in range(samples):
        text = pair.generate(prompt, draft="model", gamma=1, seed=seed, **options)
        found[tuple(text.token_ids[:2])] += 1
        accepted += text.stats.accepted
    first = distribution_after(pair, prompt, [])
    exact = {
        (one, two): p * q
        for one, p in first.items()
        for two, q in distribution_after(pair, prompt, [one]).items()
    }
    possible = set(found) <= set(exact)
    divergence = sum(
        count * math.log(count / samples / exact[cell])
        for cell, count in found.items()
        if cell in exact
    )
    most = threshold(len(exact))
    seconds = time.perf_counter() - began
    return (
        possible and divergence <= most and accepted > 0,
        f"{samples} sampled texts, {accepted} drafted tokens accepted: n · KL {divergence:.1f} of "
        f"at most {most:.1f}, all possible: {possible}, {seconds:.0f} s",
    )


def distribution_after(pair: Pair, prompt: str, tokens: list[int]) -> dict[int, float]:
    """The most probable tokens after a prompt and some tokens, with their probabilities."""
    target = pair.target
    pending = target.prefill(pair.encode(prompt))
    logits = target.score([pending, *tokens])[-1].astype(float)
    best = logits.argsort()[::-1][:TOP]
    weights = [math.exp(logits[token] - logits[best[0]]) for token in best]
    return {int(token): w / sum(weights) for token, w in zip(best, weights, strict=True)}


def threshold(outcomes: int) -> float:
    """The n · KL that a correct sampler exceeds with probability at most `FALSE_ALARM` (Agrawal
    2020)."""
    free = outcomes - 1
    low, high = float(free), 1e6
    for _ in range(100):
        middle = (low + high) / 2
        tail = -middle + free * (1 + math.log(middle / free))
        low, high = (middle, high) if tail > math.log(FALSE_ALARM) else (low, middle)
    return high
