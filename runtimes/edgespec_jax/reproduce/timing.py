"""Times on JAX's default device: of one decoder call, and of one text by the compiled loop.

The speed of a machine drifts. So times that are compared must be measured in turns, and their
medians compared.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax.numpy as jnp

import jax
from edgespec_jax.jax_blocks import Cache, Params, empty_cache
from edgespec_jax.jax_draws import Keyed
from edgespec_jax.jax_pair import JaxDecoder
from edgespec_jax.jax_state import Request
from edgespec_jax.jax_weights import JaxModel
from jax import Array, lax

__all__ = ["CALLS", "Text", "call_timer", "text_timer"]

T = TypeVar("T")

CALLS = 16  # decoder calls in one timing


class Text(NamedTuple):
    """One decoded text; `seconds` excludes its prompt."""

    seconds: float
    tokens: int
    rounds: int


def call_timer(model: JaxModel, rows: int, prompt: Array, capacity: int) -> Callable[[], float]:
    """A timer of one decoder call of `rows` positions in the middle of the cache, in seconds.

    The calls run inside one compiled loop, and each reads the result of the one before. So the
    time includes no Python, and the compiler can remove no call.
    """
    network = model.network
    dtype = next(iter(model.params.values())).dtype
    cache = empty_cache(network, len(prompt) + capacity + rows, dtype)
    length = jnp.int32(len(prompt))
    context, cache, _, base = jax.jit(network.prefill)(model.params, cache, prompt, length)
    past = base + capacity // 2

    @jax.jit
    def loop(params: Params, context: Any, cache: tuple[Cache, ...], tokens: Array) -> Array:
        def call(
            _: Array, carry: tuple[tuple[Cache, ...], Array]
        ) -> tuple[tuple[Cache, ...], Array]:
            cache, tokens = carry
            logits, cache = network.decode(params, context, cache, tokens, past)
            return cache, logits.argmax(-1).astype(jnp.int32)

        last: Array = lax.fori_loop(0, CALLS, call, (cache, tokens))[1]
        return last

    tokens = jnp.zeros(rows, jnp.int32)

    def run() -> Array:
        tokens_after: Array = loop(model.params, context, cache, tokens)
        return tokens_after

    _seconds(run)  # compiles the loop
    return lambda: _seconds(run)[0] / CALLS


def text_timer(decoder: JaxDecoder, prompt: Array, temperature: float) -> Callable[[int], Text]:
    """A timer of one text with as many tokens as the decoder's capacity, from a seed."""

    def decode(limit: int, seed: int) -> tuple[float, tuple[Array, Array]]:
        draws = Keyed(jax.random.key(seed))
        request = Request(jnp.int32(limit), jnp.float32(temperature or 1), draws)

        def run() -> tuple[Array, Array]:
            state = decoder.start(prompt, len(prompt), request)
            return state.emitted, state.rounds

        return _seconds(run)

    def text(seed: int) -> Text:
        prompt_alone, _ = decode(0, seed)  # no token: only the prompt is processed
        seconds, (tokens, rounds) = decode(decoder.capacity, seed)
        return Text(seconds - prompt_alone, int(tokens), int(rounds))

    decode(0, 0)  # compiles the loop
    return text


def _seconds(run: Callable[[], T]) -> tuple[float, T]:
    """The time of a call until its arrays are ready, and its result."""
    began = time.perf_counter()
    result: T = jax.block_until_ready(run())  # type: ignore[no-untyped-call]
    return time.perf_counter() - began, result
