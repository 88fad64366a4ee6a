"""The compiled loop's inputs, the state that it carries between rounds, and its results."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp

from edgespec_jax.jax_blocks import Cache, Params
from edgespec_jax.jax_draws import Draws
from jax import Array

__all__ = ["Record", "Request", "Side", "State", "begin"]


class Side(NamedTuple):
    """A model after its prefill.

    Attributes:
        params: its weights.
        context: what its `prefill` returned for `decode`.
        cache: one `Cache` per layer.
        base: the position of the pending token that the text starts with, int32.
    """

    params: Params
    context: Any
    cache: tuple[Cache, ...]
    base: Array


class Request(NamedTuple):
    """What one text asks for.

    Attributes:
        limit: the largest number of tokens to emit, int32.
        temperature: float32, unused when greedy.
        draws: random numbers.
    """

    limit: Array
    temperature: Array
    draws: Draws


class Record(NamedTuple):
    """The decisions of every round; row r is round r.

    Attributes:
        drafts: [rounds, γ] proposed tokens, of which the first `drafted` are valid.
        drafted, evaluated, accepted, emitted: [rounds] counts, as in `edgespec.core.decode.Round`.
    """

    drafts: Array
    drafted: Array
    evaluated: Array
    accepted: Array
    emitted: Array


class State(NamedTuple):
    """The text and caches between two rounds.

    Attributes:
        sequence: int32 [capacity]: the pending token, then all emitted tokens; the rest is
            undefined.
        emitted, rounds: the numbers of emitted tokens and of target calls.
        ended: an end token was emitted.
        target, draft: caches.
    """

    sequence: Array
    emitted: Array
    rounds: Array
    ended: Array
    target: tuple[Cache, ...]
    draft: tuple[Cache, ...]
    record: Record


def begin(gamma: int, pending: Array, capacity: int, target: Side, draft: Side | None) -> State:
    """The state before the first round; the text holds `capacity` tokens at most."""
    zero = jnp.int32(0)
    counts = jnp.zeros(capacity, jnp.int32)
    record = Record(jnp.zeros((capacity, gamma), jnp.int32), counts, counts, counts, counts)
    sequence = jnp.zeros(capacity + gamma + 2, jnp.int32).at[0].set(pending)
    cache = () if draft is None else draft.cache
    return State(sequence, zero, zero, jnp.bool_(False), target.cache, cache, record)
