"""The cost of a round and the tokens it is expected to bring, in units of a plain decoding step.

Leviathan et al. (2022), Theorem 3.8, assume that verification is free: speed-up = E[tokens] /
(γ c + 1). On a device it is not, so v(γ + 1) replaces 1, and the loop's own time o is added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, runtime_checkable

from edgespec.costs.row_cost import RowCost

__all__ = ["CostSource", "Costs", "estimated_costs", "expected_tokens"]


def expected_tokens(acceptance: float, gamma: int) -> float:
    """E[tokens of a round] = (1 − α^(γ+1)) / (1 − α), equation 1 of the paper; γ + 1 at α = 1."""
    return sum(acceptance**accepted for accepted in range(gamma + 1))


@runtime_checkable
class CostSource(Protocol):
    """Where a controller takes the costs from: `Costs`, or what the clock says by now.

    Attributes:
        may_change: a draft that cannot pay by the costs of now may do so later.
    """

    @property
    def may_change(self) -> bool: ...

    def now(self) -> Costs: ...


@dataclass(frozen=True)
class Costs:
    """Times of a target and a draft, in units of a plain step (the loop's share included).

    Attributes:
        verify: [longest + 1]: v(1), v(2), …, where v(m) = t_target(m) / t_target(1); v(1) is 1.
        draft: c = t_draft(1) / t_target(1); 0 for prompt lookup.
        overhead: o, the loop's extra time for a drafted round compared with a plain step.
    """

    verify: Sequence[float]
    draft: float
    overhead: float = 0.0

    @property
    def may_change(self) -> bool:
        return False

    def now(self) -> Costs:
        """Themselves."""
        return self

    @property
    def longest(self) -> int:
        """The largest γ whose verification has a known cost."""
        return len(self.verify) - 1

    def up_to(self, longest: int) -> Costs:
        """The same costs with v cut or extrapolated (by its mean slope) to v(longest + 1)."""
        known = list(self.verify[: longest + 1])
        slope = (known[-1] - known[0]) / max(1, len(known) - 1)
        missing = range(1, longest + 2 - len(known))
        return replace(self, verify=[*known, *(known[-1] + slope * n for n in missing)])

    def round(self, gamma: int) -> float:
        """Cost of a round that drafts γ tokens."""
        drafting = gamma * self.draft + self.overhead if gamma else 0.0
        return self.verify[gamma] + drafting

    def marginal_cost(self, rows: int) -> float:
        """The cost of one more position in a verification of `rows` positions."""
        return self._marginal_costs[min(rows, len(self._marginal_costs)) - 1]

    @cached_property
    def _marginal_costs(self) -> list[float]:
        """Slopes of v at 1, 2, …, averaged over neighbours since measured curves are not smooth.
        Negative slopes are clamped to 0."""
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
        """The γ with the largest speed-up (0 where drafting does not pay), and that speed-up.

        One pass, since it is called in every round: E[tokens] grows by α^γ.
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


# Guesses for devices that were not measured. They come from SmolLM2-135M and the T5 pair on two
# cores of two machines (docs/measurements/results.md). A number format brings its own (`RowCost`).
UNKNOWN_FORMAT = RowCost()
# Fixed times, in bytes of weights that are read meanwhile:
CALL_BYTES = 6_000_000  # any call of a model, in addition to reading its weights
ROW_BYTES = 1_000_000  # one more position in kernels, in addition to its products
LOOP_BYTES = 8_000_000  # a drafted round in Python, in addition to a plain step
SMALLEST_TARGET_BYTES = 27_000_000  # of those measured; smaller targets are treated as this one
CACHED_DRAFT_BYTES = 16_000_000  # of a draft that stay in the cache until its next call
# A target of at most CACHE_BYTES may stay in the last-level cache. Kernels then read it
# CACHE_SPEEDUP times as fast, and drafting may lose: the guess assumes the worse case.
CACHE_BYTES, CACHE_SPEEDUP = 32_000_000, 2.5


def estimated_costs(
    target_bytes: int,
    draft_bytes: int,
    longest: int,
    row_cost: RowCost = UNKNOWN_FORMAT,
    min_rows: int = 1,
    kernels: str | None = None,
) -> Costs:
    """Costs for a device that was not measured; `edgespec tune` replaces them by measurements.

    Decoding is bound by reading weights, so a draft's call costs its share of the bytes plus the
    fixed cost of a call. A small draft is read from memory once per round: verification sweeps the
    caches, the draft's own calls do not. Fixed costs matter less for larger targets.

    Args:
        target_bytes, draft_bytes: sizes of the weights; 0 for a draft that is no model.
        longest: the largest γ.
        row_cost: of the number format of the target's weights.
        min_rows: the fewest positions that the target is called with: what a plain step pays for.
        kernels: instruction set of the kernels that run the target; None without kernels.
    """
    reading = float(max(target_bytes, SMALLEST_TARGET_BYTES))
    if kernels and reading <= CACHE_BYTES:
        reading /= CACHE_SPEEDUP
    step = reading + CALL_BYTES
    slope, arithmetic = row_cost.marginal, 0.0
    if kernels:
        slope = row_cost.marginal_with_kernels + ROW_BYTES / step
        arithmetic = row_cost.arithmetic_with(kernels)
    verify = [
        max(1 + slope * max(0, rows - min_rows), arithmetic * rows)
        for rows in range(1, longest + 2)
    ]
    drafting, call, loop = draft_bytes / step, CALL_BYTES / step, LOOP_BYTES / step
    if not draft_bytes:
        return Costs(verify, 0.0, overhead=loop)
    if draft_bytes > CACHED_DRAFT_BYTES:
        return Costs(verify, drafting + call, overhead=loop)
    return Costs(verify, call, overhead=loop + drafting)
