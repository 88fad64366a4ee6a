"""What acceptance is worth: the paper's formulas, and the one for a device.

α is the probability that a drafted token is accepted, taken to be independent from token to token;
γ tokens are drafted a round; c = t_draft(1)/t_target(1); v(m) = t_target(m)/t_target(1).
"""

from __future__ import annotations

__all__ = ["best_gamma", "expected_tokens", "operations", "speedup", "speedup_on_device"]


def expected_tokens(alpha: float, gamma: int) -> float:
    """Tokens a target call brings: (1 − α^(γ+1)) / (1 − α). Paper, equation 1."""
    return sum(alpha**i for i in range(gamma + 1))


def speedup(alpha: float, gamma: int, c: float) -> float:
    """Over plain decoding, when verification costs one step. Paper, theorem 3.8."""
    return expected_tokens(alpha, gamma) / (gamma * c + 1)


def operations(alpha: float, gamma: int, c_hat: float = 0.0) -> float:
    """Arithmetic over that of plain decoding; ĉ: the draft's per token over the target's.

    Paper, theorem 3.11: (1 − α)(γĉ + γ + 1) / (1 − α^(γ+1)).
    """
    return (gamma * c_hat + gamma + 1) / expected_tokens(alpha, gamma)


def speedup_on_device(
    tokens: float, gamma: int, c: float, verification: float, overhead: float = 0.0
) -> float:
    """Over plain decoding: tokens / (γ·c + v(γ+1) + o), o being the loop's own share of a step."""
    return tokens / (gamma * c + verification + overhead)


def best_gamma(alpha: float, c: float, most: int = 64) -> int:
    """The γ whose `speedup` is largest; 0 where drafting does not pay."""
    return max(range(most + 1), key=lambda gamma: speedup(alpha, gamma, c))
