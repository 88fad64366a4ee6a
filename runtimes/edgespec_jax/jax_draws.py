"""The random numbers of the compiled loop: from a key, or from a table shared with another loop."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

import jax
from edgespec_jax.draw_table import DrawTable
from jax import Array

__all__ = ["Draws", "Keyed", "Tabled", "noise", "noises", "tabled", "uniforms"]


class Keyed(NamedTuple):
    """Numbers computed from a `jax.random` key, the number of emitted tokens and the decision."""

    key: Array


class Tabled(NamedTuple):
    """Numbers read from a `DrawTable`, with its attributes."""

    uniforms: Array
    noise: Array


Draws = Keyed | Tabled


def tabled(table: DrawTable) -> Tabled:
    """The table as JAX arrays."""
    return Tabled(jnp.asarray(table.uniforms), jnp.asarray(table.noise))


def uniforms(draws: Draws, emitted: Array, gamma: int) -> Array:
    """The uniforms [γ] of the accept decisions in the round that starts after `emitted` tokens."""
    if isinstance(draws, Tabled):
        return draws.uniforms[emitted]
    return jax.random.uniform(_key(draws, emitted, gamma + 1), (gamma,))


def noise(draws: Draws, emitted: Array, decision: Array | int, width: int) -> Array:
    """The arrival times of the round's `decision`-th drawn token: standard exponential, [width]."""
    if isinstance(draws, Tabled):
        return draws.noise[emitted, decision, :width]
    bits = jax.random.bits(_key(draws, emitted, decision), (width,), jnp.uint32)
    # The smallest of V times decides the race, so near zero they need 32 random bits, not 23.
    return -jnp.log1p(-jnp.minimum((bits.astype(jnp.float32) + 0.5) * 2.0**-32, 1 - 2.0**-24))


def noises(draws: Draws, emitted: Array, count: int, width: int) -> Array:
    """`noise` of the decisions 0 … count - 1: [count, width].

    All at once: on a GPU each draft step then has a dozen small kernels less.
    """
    decisions = jnp.arange(count, dtype=jnp.int32)
    return jax.vmap(lambda decision: noise(draws, emitted, decision, width))(decisions)


def _key(draws: Keyed, emitted: Array, decision: Array | int) -> Array:
    """The key of one decision: 0 … γ for drawn tokens, γ + 1 for all accept decisions."""
    return jax.random.fold_in(jax.random.fold_in(draws.key, emitted), decision)
