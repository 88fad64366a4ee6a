"""Where the compiled loop gets its random numbers: a key, or a table that others read too."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

import jax
from edgespec_jax.draw_table import DrawTable
from jax import Array

__all__ = ["Draws", "Keyed", "Tabled", "noise", "tabled", "uniforms"]


class Keyed(NamedTuple):
    """Numbers computed from a `jax.random` key, the round's first position and the decision."""

    key: Array


class Tabled(NamedTuple):
    """Numbers read from a `DrawTable`; the attributes are its."""

    uniforms: Array
    noise: Array


Draws = Keyed | Tabled


def tabled(table: DrawTable) -> Tabled:
    return Tabled(jnp.asarray(table.uniforms), jnp.asarray(table.noise))


def uniforms(draws: Draws, emitted: Array, gamma: int) -> Array:
    """The accept decisions' uniforms, [γ], of the round that starts after `emitted` tokens."""
    if isinstance(draws, Tabled):
        return draws.uniforms[emitted]
    return jax.random.uniform(_key(draws, emitted, gamma + 1), (gamma,))


def noise(draws: Draws, emitted: Array, decision: Array | int, width: int) -> Array:
    """The race of the round's `decision`-th drawn token: standard exponential, [width]."""
    if isinstance(draws, Tabled):
        return draws.noise[emitted, decision, :width]
    bits = jax.random.bits(_key(draws, emitted, decision), (width,), jnp.uint32)
    # The smallest of V times decides a race, so they need 32 bits near zero, not a float's 23.
    return -jnp.log1p(-jnp.minimum((bits.astype(jnp.float32) + 0.5) * 2.0**-32, 1 - 2.0**-24))


def _key(draws: Keyed, emitted: Array, decision: Array | int) -> Array:
    """Of one decision; the tokens' are 0 … γ, and γ + 1 is that of all accept decisions."""
    return jax.random.fold_in(jax.random.fold_in(draws.key, emitted), decision)
