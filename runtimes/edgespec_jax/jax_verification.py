"""The two verification rules on dense arrays: a second `edgespec.core.verification`.

p is the target's distribution, q the draft's. Rows are dense, [V], so shapes are fixed under `jit`.
A greedy distribution is a one-hot row and needs no special case. Only the first `drafted` of the γ
rows are valid.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp

import jax
from jax import Array, lax

__all__ = [
    "RULES",
    "VerificationResult",
    "block_rule",
    "distribution",
    "draw_token",
    "synthetic_rule",
    "token_rule",
]


class VerificationResult(NamedTuple):
    """How far a proposal is accepted, and the distribution of the round's last token.

    Attributes:
        accepted, evaluated: int32 scalars, as in `edgespec.core.verification.VerificationResult`.
        next: [V] weights of the round's last token; they need not sum to one.
    """

    accepted: Array
    evaluated: Array
    next: Array


# Arguments: tokens [γ], q [γ, V], p [γ + 1, V], drafted, uniforms [γ].
Rule = Callable[[Array, Array, Array, Array, Array], VerificationResult]


def distribution(logits: Array, temperature: Array, greedy: bool) -> Array:
    """Probabilities of rows of logits, [..., V] float32; one-hot rows if `greedy`."""
    if greedy:
        return jax.nn.one_hot(logits.argmax(-1), logits.shape[-1])
    return jax.nn.softmax(logits / temperature)


def draw_token(weights: Array, noise: Array, greedy: bool) -> Array:
    """Draws a token with probability proportional to its weight, by an exponential race.

    Args:
        weights, noise: [V]; noise is standard exponential (`edgespec_jax.draw_table`).
    """
    if greedy:
        return weights.argmax().astype(jnp.int32)
    arrivals = jnp.where(weights > 0, noise / weights, jnp.inf)
    return arrivals.argmin().astype(jnp.int32)


def token_rule(
    tokens: Array, q: Array, p: Array, drafted: Array, uniforms: Array
) -> VerificationResult:
    """Leviathan et al. (2022, arXiv 2211.17192v2), Algorithm 1."""
    return _first_rejection(_ratios(tokens, q, p), q, p, drafted, uniforms)


def synthetic_rule(alpha: Array) -> Rule:
    """Accepts every token with probability α, whatever p and q are; only for timing.

    The ratios are still computed, so a round costs as much as with `token_rule`.
    """

    def rule(
        tokens: Array, q: Array, p: Array, drafted: Array, uniforms: Array
    ) -> VerificationResult:
        ratios = _ratios(tokens, q, p)
        return _first_rejection(jnp.where(ratios >= 0, alpha, ratios), q, p, drafted, uniforms)

    return rule


def block_rule(
    tokens: Array, q: Array, p: Array, drafted: Array, uniforms: Array
) -> VerificationResult:
    """Sun et al. (2024, arXiv 2403.10444), block verification.

    Uniforms are read in the order of the decisions: first that of w_γ, then those of h_i from the
    last index to the first. An index whose Z is zero makes no decision and reads no uniform.
    """
    gamma = len(tokens)
    w = _running_weights(_ratios(tokens, q, p))  # w_0 … w_γ
    excess = jnp.maximum(w[:gamma, None] * p[:gamma] - q, 0)  # [γ, V]
    z = excess.sum(-1)
    indices = jnp.arange(gamma + 1)
    whole = indices == drafted
    inner = (indices > 0) & (indices < drafted) & (jnp.append(z, 0) > 0)
    probabilities = jnp.where(whole, w, jnp.append(z / (z + (1 - w[:gamma])), 0))
    decides = (whole | inner).astype(jnp.int32)
    earlier = lax.cumsum(decides, reverse=True) - decides  # decisions go from the last to the first
    draws = jnp.append(uniforms, 1)[jnp.minimum(earlier, gamma)]
    accepts = jnp.where(drafted > 0, (whole | inner) & (draws < probabilities), whole)
    accepted = jnp.max(jnp.where(accepts, indices, 0)).astype(jnp.int32)
    residual = _residual_or_p(excess[jnp.minimum(accepted, gamma - 1)], p[accepted])
    evaluated = jnp.minimum(accepted + 1, drafted)
    return VerificationResult(
        accepted, evaluated, jnp.where(accepted == drafted, p[accepted], residual)
    )


RULES: dict[str, Rule] = {"token": token_rule, "block": block_rule}


def _ratios(tokens: Array, q: Array, p: Array) -> Array:
    """p_i(x_i) / q_i(x_i): [γ]."""
    indices = jnp.arange(len(tokens))
    return p[indices, tokens] / q[indices, tokens]


def _running_weights(ratios: Array) -> Array:
    """w_0 = 1, w_i = min(w_{i-1} · ratio_i, 1): [γ + 1]."""

    def step(w: Array, ratio: Array) -> tuple[Array, Array]:
        w = jnp.minimum(w * ratio, 1)
        return w, w

    one = jnp.ones((), ratios.dtype)
    return jnp.append(one, lax.scan(step, one, ratios)[1])


def _first_rejection(
    probabilities: Array, q: Array, p: Array, drafted: Array, uniforms: Array
) -> VerificationResult:
    """Accepts tokens, each with its own probability, until the first rejection."""
    gamma = len(probabilities)
    accepts = (uniforms < probabilities) & (jnp.arange(gamma) < drafted)
    accepted = jnp.cumprod(accepts.astype(jnp.int32)).sum().astype(jnp.int32)
    evaluated = jnp.minimum(accepted + 1, drafted)
    rejected = jnp.minimum(accepted, gamma - 1)
    residual = _residual_or_p(jnp.maximum(p[rejected] - q[rejected], 0), p[accepted])
    return VerificationResult(
        accepted, evaluated, jnp.where(accepted == drafted, p[accepted], residual)
    )


def _residual_or_p(residual: Array, p: Array) -> Array:
    """The residual; p where rounding made the whole residual zero."""
    return jnp.where((residual > 0).any(), residual, p)
