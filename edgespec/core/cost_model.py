"""What a round costs and what it brings, in steps of plain decoding.

Leviathan et al. (2022), Theorem 3.8, assume that verification is free: speed-up = E[tokens] /
(γ c + 1). On a device it is not, so the curve v(m) takes the place of 1, and the loop has a share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

__all__ = ["Costs", "estimated_costs", "expected_tokens"]


def expected_tokens(acceptance: float, gamma: int) -> float:
    """E[tokens of a round] = (1 − α^(γ+1)) / (1 − α), equation 1 of the paper; γ + 1 at α = 1."""
    return sum(acceptance**accepted for accepted in range(gamma + 1))


@dataclass(frozen=True)
class Costs:
    """Times in units of a plain step with its share of the loop.

    Attributes:
        verify: v(1), v(2), …: t_target(m) / t_target(1); v(1) is 1.
        draft: c = t_draft(1) / t_target(1); 0 for prompt lookup.
        overhead: o, what the loop takes more for a drafted round than for a plain step.
    """

    verify: Sequence[float]
    draft: float
    overhead: float = 0.0

    @property
    def longest(self) -> int:
        """The largest γ whose verification has a known cost."""
        return len(self.verify) - 1

    def up_to(self, longest: int) -> Costs:
        """With as many entries as there may be drafted tokens: cut, or continued as it rose."""
        known = list(self.verify[: longest + 1])
        slope = (known[-1] - known[0]) / max(1, len(known) - 1)
        further = range(1, longest + 2 - len(known))
        return replace(self, verify=[*known, *(known[-1] + slope * n for n in further)])

    def round(self, gamma: int) -> float:
        """Cost of a round that drafts γ tokens."""
        drafting = gamma * self.draft + self.overhead if gamma else 0.0
        return self.verify[gamma] + drafting

    def marginal_cost(self, rows: int) -> float:
        """What another position costs in a verification of so many."""
        return self._marginal_costs[min(rows, len(self._marginal_costs)) - 1]

    @cached_property
    def _marginal_costs(self) -> list[float]:
        """Slopes at v(1), v(2), …, over neighbours: measured curves are not smooth, and where one
        falls, nobody is paid for more positions."""
        slopes = []
        for rows in range(1, max(1, self.longest) + 1):
            first, last = max(0, rows - 2), min(self.longest, rows + 1)
            slope = (self.verify[last] - self.verify[first]) / max(1, last - first)
            slopes.append(max(0.0, slope))
        return slopes

    def speedup(self, acceptance: float, gamma: int) -> float:
        """S = E[tokens] / (γ c + v(γ + 1) + o), over plain decoding."""
        return expected_tokens(acceptance, gamma) / self.round(gamma)

    def best(self, acceptance: float) -> tuple[int, float]:
        """The γ of the largest speed-up, 0 where drafting does not pay, and that speed-up.

        In one pass, for it is asked in every round: E[tokens] grows by α^γ.
        """
        best, largest = 0, 0.0
        tokens, reached = 0.0, 1.0
        for gamma, cost in enumerate(self._rounds):
            tokens += reached
            reached *= acceptance
            if tokens > largest * cost:
                best, largest = gamma, tokens / cost
        return best, largest

    @cached_property
    def _rounds(self) -> list[float]:
        return [self.round(gamma) for gamma in range(self.longest + 1)]


# What a position beyond a plain step's costs, as was measured for SmolLM2-135M and the T5 pair on
# two cores of two machines (docs/speed.md).
FURTHER = {"int8": 0.06, "int8-weights": 0.12, "int4-weights": 0.17}
FURTHER_ELSE = 0.045
FURTHER_WITH_KERNELS = {**FURTHER, "int8": 0.02, "fp16": 0.03, "bf16": 0.03}
# The time in which kernels calculate a position, as a part of a plain step's: many positions are
# bound by that, and no longer by reading weights.
ARITHMETIC = {"int8": 0.11, "fp16": 0.2, "bf16": 0.2}
# Bytes of weights that are read in the time that these take:
CALL = 6_000_000  # any call of a model, beyond reading its weights
ROW = 1_000_000  # a further position in kernels, beyond its products
LOOP = 8_000_000  # a drafted round in Python, beyond a plain step
SMALLEST = 27_000_000  # target of which they were measured; a smaller one is taken for that
CACHED = 16_000_000  # bytes of a draft that are still in the processor's cache at its next call
# A target that small may stay in the last cache, too, or be driven out by other programs. Kernels
# then read it so many times as fast, and drafting may lose; it is not risked on a guess.
NEAR, NEARER = 32_000_000, 2.5


def estimated_costs(
    target_bytes: int,
    draft_bytes: int,
    longest: int,
    weights_format: str = "fp32",
    min_rows: int = 1,
    kernels: bool = False,
) -> Costs:
    """A guess for a device that was not measured; `edgespec tune` replaces it by measurements.

    Decoding is bound by reading the weights, so a draft's call costs as much of a target's as it is
    smaller, and what any call costs. A small draft reads them once in a round: verification sweeps
    the caches, its own calls do not. What reads no weights is the less of a step, the larger the
    target.

    Args:
        target_bytes, draft_bytes: sizes of the two; no draft model is prompt lookup.
        longest: the largest γ.
        weights_format: number format of the target's weights, such as "int8".
        min_rows: positions that the target is called with at least: what a plain step pays.
        kernels: run the target (`edgespec.core.kernels`).
    """
    reading = float(max(target_bytes, SMALLEST))
    if kernels and reading <= NEAR:
        reading /= NEARER
    step = reading + CALL
    slope, arithmetic = FURTHER.get(weights_format, FURTHER_ELSE), 0.0
    if kernels:
        slope = FURTHER_WITH_KERNELS.get(weights_format, FURTHER_ELSE) + ROW / step
        arithmetic = ARITHMETIC.get(weights_format, 0.0)
    verify = [
        max(1 + slope * max(0, rows - min_rows), arithmetic * rows)
        for rows in range(1, longest + 2)
    ]
    drafting, call, loop = draft_bytes / step, CALL / step, LOOP / step
    if not draft_bytes:
        return Costs(verify, 0.0, overhead=loop)
    if draft_bytes > CACHED:
        return Costs(verify, drafting + call, overhead=loop)
    return Costs(verify, call, overhead=loop + drafting)
