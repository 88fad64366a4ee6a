"""Seconds on the accelerator at hand: of one decoder call, and of a compiled loop."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from edgespec_runtimes.jax_blocks import Cache, empty_cache
from edgespec_runtimes.jax_draws import Keyed
from edgespec_runtimes.jax_path import JaxDecoder
from edgespec_runtimes.jax_state import Request
from edgespec_runtimes.jax_weights import JaxModel

__all__ = ["call_seconds", "loop_seconds", "median_seconds"]


def call_seconds(
    model: JaxModel, rows: int, *, prompt: Array, capacity: int, calls: int, repeats: int
) -> float:
    """A decoder call of `rows` positions in the middle of the cache.

    Calls follow each other inside one compiled loop, each fed by the one before, so that neither
    Python nor the compiler can take part in what is timed.
    """
    network = model.network
    dtype = next(iter(model.params.values())).dtype
    cache = empty_cache(network, len(prompt) + capacity + rows, dtype)
    length = jnp.int32(len(prompt))
    context, cache, _, base = jax.jit(network.prefill)(model.params, cache, prompt, length)
    past = base + capacity // 2

    @jax.jit
    def loop(params: Any, context: Any, cache: tuple[Cache, ...], tokens: Array) -> Array:
        def call(_: Array, carry: tuple[Any, Array]) -> tuple[Any, Array]:
            cache, tokens = carry
            logits, cache = network.decode(params, context, cache, tokens, past)
            return cache, logits.argmax(-1).astype(jnp.int32)

        last: Array = lax.fori_loop(0, calls, call, (cache, tokens))[1]
        return last

    tokens = jnp.zeros(rows, jnp.int32)
    seconds = median_seconds(lambda: loop(model.params, context, cache, tokens), repeats)
    return seconds / calls


def loop_seconds(
    decoder: JaxDecoder, prompt: Array, *, temperature: float, texts: int
) -> tuple[float, int, int]:
    """Decoding `texts` texts of the decoder's capacity, prompts left out.

    Returns:
        Seconds, emitted tokens and rounds of all texts together.
    """

    def text(limit: int, seed: int) -> Any:
        draws = Keyed(jax.random.key(seed))
        request = Request(jnp.int32(limit), jnp.float32(temperature or 1), draws)
        state = decoder.start(prompt, len(prompt), request)
        return state.emitted, state.rounds

    limit = decoder.capacity
    prompts_alone = median_seconds(lambda: text(0, 0), 3)
    seconds, tokens, rounds = 0.0, 0, 0
    for seed in range(texts):
        began = time.perf_counter()
        counts = _wait(text(limit, seed))
        seconds += time.perf_counter() - began - prompts_alone
        tokens, rounds = tokens + int(counts[0]), rounds + int(counts[1])
    return seconds, tokens, rounds


def _wait(result: Any) -> Any:
    return jax.block_until_ready(result)  # type: ignore[no-untyped-call]


def median_seconds(run: Callable[[], Any], repeats: int) -> float:
    """Of `repeats` runs, behind one that compiles."""
    _wait(run())
    taken = []
    for _ in range(repeats):
        began = time.perf_counter()
        _wait(run())
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)
