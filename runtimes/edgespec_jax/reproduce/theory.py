"""The paper's formulas (Leviathan, Kalman and Matias 2022, arXiv 2211.17192).

α is the probability that a drafted token is accepted, assumed independent of the other tokens; γ
tokens are drafted per round; c = t_draft(1) / t_target(1). Equation 1, the expected tokens of a
round, and the speed-up on a device whose verification is not free are in
`edgespec.costs.cost_model`.
"""

from __future__ import annotations

from edgespec.costs.cost_model import expected_tokens

__all__ = ["best_gamma", "operations", "speedup"]


def speedup(alpha: float, gamma: int, c: float) -> float:
    """Speed-up over plain decoding where verification costs one step. Paper, theorem 3.8."""
    return expected_tokens(alpha, gamma) / (gamma * c + 1)


def operations(alpha: float, gamma: int, c_hat: float = 0.0) -> float:
    """Arithmetic operations relative to plain decoding.

    Paper, theorem 3.11: (1 − α)(γĉ + γ + 1) / (1 − α^(γ+1)). `c_hat` (ĉ) is the draft's number of
    operations per token over the target's.
    """
    return (gamma * c_hat + gamma + 1) / expected_tokens(alpha, gamma)


def best_gamma(alpha: float, c: float, largest: int = 64) -> int:
    """The γ of the largest `speedup`; 0 where drafting does not pay."""
    return max(range(largest + 1), key=lambda gamma: speedup(alpha, gamma, c))
