"""Speculative decoding as one compiled loop, with the steps of `edgespec.core.decode.speculate`.

Shapes never change: a round always drafts γ tokens and verifies γ + 1 positions. Counts say how
many of them are valid; entries after a count are overwritten before they are read.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp

import jax
from edgespec_jax.jax_blocks import Cache, Network
from edgespec_jax.jax_draws import noise, noises, uniforms
from edgespec_jax.jax_state import Record, Request, Side, State
from edgespec_jax.jax_verification import Rule, VerificationResult, distribution, draw_token
from jax import Array, lax

__all__ = ["Loop", "run"]


@dataclass(frozen=True)
class Loop:
    """What is fixed at compile time.

    Attributes:
        target, draft: networks; γ = 0 needs no draft.
        rule: a verification rule of `jax_verification`.
        greedy: one-hot distributions.
        ends: token ids that end a text.
    """

    target: Network
    draft: Network | None
    gamma: int
    rule: Rule
    greedy: bool
    ends: tuple[int, ...]


def run(loop: Loop, state: State, target: Side, draft: Side | None, request: Request) -> State:
    """Runs rounds until an end token or the limit. The caches are those of the state."""

    def should_continue(state: State) -> Array:
        return (state.emitted < request.limit) & ~state.ended

    def round_(state: State) -> State:
        if draft is None:
            return _plain(loop, state, target, request)
        return _speculative(loop, state, target, draft, request)

    return lax.while_loop(should_continue, round_, state)


def _plain(loop: Loop, state: State, target: Side, request: Request) -> State:
    """A round without a draft: one target call, one token."""
    pending = lax.dynamic_slice(state.sequence, (state.emitted,), (1,))
    past = target.base + state.emitted
    logits, cache = loop.target.decode(target.params, target.context, state.target, pending, past)
    p = distribution(logits, request.temperature, loop.greedy)
    zero = jnp.int32(0)
    result = VerificationResult(zero, zero, p[0])
    return _emit(loop, state._replace(target=cache), jnp.zeros(0, jnp.int32), zero, result, request)


def _speculative(loop: Loop, state: State, target: Side, draft: Side, request: Request) -> State:
    """A round that drafts γ tokens and verifies them in one target call."""
    drafts, q, draft_cache = _propose(loop, state, draft, request)
    drafted = jnp.minimum(loop.gamma, request.limit - state.emitted - 1)
    drafted = jnp.minimum(drafted, _until_end(loop, drafts, drafted))
    pending = lax.dynamic_slice(state.sequence, (state.emitted,), (1,))
    logits, target_cache = loop.target.decode(
        target.params,
        target.context,
        state.target,
        jnp.concatenate([pending, drafts]),
        target.base + state.emitted,
    )
    p = distribution(logits, request.temperature, loop.greedy)
    q = jnp.pad(q, ((0, 0), (0, p.shape[1] - q.shape[1])))
    draws = uniforms(request.draws, state.emitted, loop.gamma)
    result = loop.rule(drafts, q, p, drafted, draws)
    state = state._replace(target=target_cache, draft=draft_cache)
    return _emit(loop, state, drafts, drafted, result, request)


def _propose(
    loop: Loop, state: State, draft: Side, request: Request
) -> tuple[Array, Array, tuple[Cache, ...]]:
    """γ tokens, the distributions they were drawn from ([γ, V]) and the draft's cache.

    After a full acceptance the cache lacks the last drafted token, so the first call scores the
    two last tokens of the text. At the beginning of a text it scores the pending token and an
    entry that is not filled yet.
    """
    network = loop.draft
    assert network is not None
    width = min(network.vocab_size, loop.target.vocab_size)

    def known(tokens: Array) -> Array:
        """The draft reads a token outside its vocabulary as token 0."""
        return jnp.where(tokens < width, tokens, 0)

    def drawn(row: Array, race: Array) -> tuple[Array, Array]:
        q = distribution(row[:width], request.temperature, loop.greedy)
        return draw_token(q, race, loop.greedy), q

    def step(
        carry: tuple[Array, tuple[Cache, ...]], decision: tuple[Array, Array]
    ) -> tuple[tuple[Array, tuple[Cache, ...]], tuple[Array, Array]]:
        (token, cache), (index, race) = carry, decision
        past = draft.base + state.emitted + index
        logits, cache = network.decode(draft.params, draft.context, cache, token[None], past)
        token, q = drawn(logits[0], race)
        return (token, cache), (token, q)

    first = jnp.maximum(state.emitted - 1, 0)
    pair = known(lax.dynamic_slice(state.sequence, (first,), (2,)))
    logits, cache = network.decode(
        draft.params, draft.context, state.draft, pair, draft.base + first
    )
    indices = jnp.arange(loop.gamma, dtype=jnp.int32)
    # A greedy draft draws nothing.
    races = noises(request.draws, state.emitted, loop.gamma, 0 if loop.greedy else width)
    token, q = drawn(logits[state.emitted - first], races[0])
    decisions = (indices[1:], races[1:])
    (_, cache), (tokens, distributions) = lax.scan(step, (token, cache), decisions)
    return jnp.append(token, tokens), jnp.concatenate([q[None], distributions]), cache


def _emit(
    loop: Loop,
    state: State,
    drafts: Array,
    drafted: Array,
    result: VerificationResult,
    request: Request,
) -> State:
    """Draws the round's last token and appends the accepted tokens and that one to the text."""
    width = loop.target.vocab_size
    race = result.next if loop.greedy else noise(request.draws, state.emitted, drafted, width)
    last = draw_token(result.next, race, loop.greedy)
    tokens = jnp.where(jnp.arange(loop.gamma + 1) < result.accepted, jnp.append(drafts, 0), last)
    length = jnp.minimum(result.accepted + 1, _until_end(loop, tokens, result.accepted + 1))
    ended = jnp.isin(tokens[length - 1], jnp.array(loop.ends, jnp.int32))
    row = Record(
        drafts,
        drafted,
        jnp.minimum(result.evaluated, length),
        jnp.minimum(result.accepted, length),
        length,
    )
    return state._replace(
        sequence=lax.dynamic_update_slice(state.sequence, tokens, (state.emitted + 1,)),
        emitted=state.emitted + length,
        rounds=state.rounds + 1,
        ended=ended,
        record=jax.tree.map(lambda rows, one: rows.at[state.rounds].set(one), state.record, row),
    )


def _until_end(loop: Loop, tokens: Array, count: Array) -> Array:
    """The number of the first `count` tokens up to and including the first end token."""
    ends = jnp.isin(tokens, jnp.array(loop.ends, jnp.int32))
    return jnp.where(ends.any(), jnp.minimum(ends.argmax() + 1, count), count).astype(jnp.int32)
