"""The two accept rules on whole arrays: a second `edgespec.core.verification`.

p is the target's distribution, q the draft's. Rows are dense, [V], so that shapes are fixed under `jit`; a
greedy distribution is a one-hot row and takes the same road. Only the first `drafted` of γ rows are real.
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
    """Attributes:
    accepted, evaluated: int32 scalars, as in `edgespec.core.verification.VerificationResult`.
    next: [V] weights of the round's last token; they need not sum to one.
    """

    accepted: Array
    evaluated: Array
    next: Array


# (tokens [γ], q [γ, V], p [γ + 1, V], drafted, uniforms [γ]) to a verdict.
Rule = Callable[[Array, Array, Array, Array, Array], VerificationResult]


def distribution(logits: Array, temperature: Array, greedy: bool) -> Array:
    """Rows of logits to rows of probabilities: [..., V] float32. Greedy is one-hot."""
    if greedy:
        return jax.nn.one_hot(logits.argmax(-1), logits.shape[-1])
    return jax.nn.softmax(logits / temperature)


def draw_token(weights: Array, noise: Array, greedy: bool) -> Array:
    """A token with probability proportional to its weight: the winner of an exponential race.

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
    """Accepts every token with probability α, whatever the models say: for timing alone.

    The ratios are computed all the same, so that a round costs what it costs.
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

    Uniforms are read in the order of the decisions: w_γ's first, then h_i from the last place to
    the first. A place whose Z is zero decides nothing and reads none.
    """
    gamma = len(tokens)
    w = _running_weights(_ratios(tokens, q, p))  # w_0 … w_γ
    excess = jnp.maximum(w[:gamma, None] * p[:gamma] - q, 0)  # [γ, V]
    z = excess.sum(-1)
    places = jnp.arange(gamma + 1)
    whole = places == drafted
    inner = (places > 0) & (places < drafted) & (jnp.append(z, 0) > 0)
    probabilities = jnp.where(whole, w, jnp.append(z / (z + 1 - w[:gamma]), 0))
    asked = (whole | inner).astype(jnp.int32)
    asked_later = lax.cumsum(asked, reverse=True) - asked  # how many decisions came before
    draws = jnp.append(uniforms, 1)[jnp.minimum(asked_later, gamma)]
    kept = jnp.where(drafted > 0, (whole | inner) & (draws < probabilities), whole)
    accepted = jnp.max(jnp.where(kept, places, 0)).astype(jnp.int32)
    left = _or_else(excess[jnp.minimum(accepted, gamma - 1)], p[accepted])
    evaluated = jnp.minimum(accepted + 1, drafted)
    return VerificationResult(
        accepted, evaluated, jnp.where(accepted == drafted, p[accepted], left)
    )


RULES: dict[str, Rule] = {"token": token_rule, "block": block_rule}


def _ratios(tokens: Array, q: Array, p: Array) -> Array:
    """p_i(x_i) / q_i(x_i): [γ]."""
    places = jnp.arange(len(tokens))
    return p[places, tokens] / q[places, tokens]


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
    gamma = len(probabilities)
    kept = (uniforms < probabilities) & (jnp.arange(gamma) < drafted)
    accepted = jnp.cumprod(kept.astype(jnp.int32)).sum().astype(jnp.int32)
    evaluated = jnp.minimum(accepted + 1, drafted)
    rejected = jnp.minimum(accepted, gamma - 1)
    left = _or_else(jnp.maximum(p[rejected] - q[rejected], 0), p[accepted])
    return VerificationResult(
        accepted, evaluated, jnp.where(accepted == drafted, p[accepted], left)
    )


def _or_else(residual: Array, p: Array) -> Array:
    """The residual, or p where rounding left nothing of it."""
    return jnp.where((residual > 0).any(), residual, p)
