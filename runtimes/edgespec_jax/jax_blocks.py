"""The parts both families are made of, in plain JAX. Positions are rows: x is [m, width].

Numbers: float32 multiplies at precision "highest" on every device (no TF32, no bfloat16 passes);
bfloat16 multiplies once and accumulates in float32. Norms, softmax, rotary angles and logits are
float32 in both.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import jax.numpy as jnp

import jax
from jax import Array, lax

__all__ = [
    "HEAD",
    "HIDDEN",
    "Cache",
    "Network",
    "Params",
    "activation",
    "append",
    "attend",
    "empty_cache",
    "heads_of",
    "linear",
    "product",
    "rms_norm",
]

# By the names of the checkpoint. Matrices that multiply are [in, out], the transpose of what is
# stored: XLA's CPU backend would otherwise turn them round at every call of several positions.
Params = dict[str, Array]
HEAD = "lm_head.weight"  # present in all params: a copy of the embedding where that is the head
HIDDEN = -1e30  # added to a score that must not be seen


class Cache(NamedTuple):
    """Keys and values of one layer, [kv_heads, capacity, size] each; a batch adds an axis before.

    A call writes its own positions and sees none behind them, so a rewind is a smaller length.
    """

    keys: Array
    values: Array


class Network(Protocol):
    """What the loop asks of a family. Every method can be traced.

    Attributes:
        vocab_size: width of a row of logits.
        layers, kv_heads, head_size: of the decoder's cache.
    """

    @property
    def vocab_size(self) -> int: ...
    @property
    def layers(self) -> int: ...
    @property
    def kv_heads(self) -> int: ...
    @property
    def head_size(self) -> int: ...

    def prefill(
        self, params: Params, cache: tuple[Cache, ...], prompt: Array, length: Array
    ) -> tuple[Any, tuple[Cache, ...], Array, Array]:
        """Starts a text from the first `length` of `prompt` (int32 [capacity], padded).

        Returns:
            What `decode` needs besides the cache; the cache; the pending token; its position.
        """
        ...

    def decode(
        self, params: Params, context: Any, cache: tuple[Cache, ...], tokens: Array, past: Array
    ) -> tuple[Array, tuple[Cache, ...]]:
        """Logits after each of `tokens` (int32 [m]) at positions past …: float32 [m, V]."""
        ...


def empty_cache(network: Network, capacity: int, dtype: Any) -> tuple[Cache, ...]:
    """A cache of zeros for every layer."""
    shape = (network.kv_heads, capacity, network.head_size)
    return tuple(
        Cache(jnp.zeros(shape, dtype), jnp.zeros(shape, dtype)) for _ in range(network.layers)
    )


def product(equation: str, x: Array, y: Array) -> Array:
    """An einsum in float32, at the precision the module promises."""
    exact = lax.Precision.HIGHEST if x.dtype == jnp.float32 else lax.Precision.DEFAULT
    return jnp.einsum(equation, x, y, precision=exact, preferred_element_type=jnp.float32)


def linear(x: Array, weight: Array, bias: Array | None = None) -> Array:
    """x · W (+ b) for a matrix [in, out]: [m, out]."""
    out = product("mi,io->mo", x, weight).astype(x.dtype)
    return out if bias is None else out + bias


def rms_norm(x: Array, weight: Array, epsilon: float) -> Array:
    """x / √(mean(x²) + ε) · weight, over the last axis."""
    wide = x.astype(jnp.float32)
    scale = lax.rsqrt((wide * wide).mean(-1, keepdims=True) + epsilon)
    return (wide * scale).astype(x.dtype) * weight


def activation(x: Array, name: str) -> Array:
    """The activations that checkpoints name."""
    if name == "relu":
        return jax.nn.relu(x)
    if name == "silu":
        return jax.nn.silu(x)
    return jax.nn.gelu(x, approximate={"gelu": False}.get(name, True))


def heads_of(x: Array, count: int) -> Array:
    """[m, count · size] to [count, m, size]."""
    return x.reshape(x.shape[0], count, -1).swapaxes(0, 1)


def append(cache: Cache, keys: Array, values: Array, past: Array) -> Cache:
    """Writes [kv_heads, m, size] at positions past … past + m - 1."""
    place = (0, past, 0)
    return Cache(
        lax.dynamic_update_slice(cache.keys, keys.astype(cache.keys.dtype), place),
        lax.dynamic_update_slice(cache.values, values.astype(cache.values.dtype), place),
    )


def attend(q: Array, keys: Array, values: Array, bias: Array, scale: float) -> Array:
    """softmax(q · kᵀ · scale + bias) · v; neighbouring query heads share a key head.

    Args:
        q: [heads, m, size].
        keys, values: [kv_heads, n, size].
        bias: float32 [heads or 1, m or 1, n].

    Returns:
        [m, heads · size].
    """
    heads, m, size = q.shape
    shared = q.reshape(keys.shape[0], -1, size)  # the heads of a group below each other
    scores = product("hmd,hnd->hmn", shared, keys).reshape(heads, m, -1) * scale + bias
    weights = jax.nn.softmax(scores).astype(values.dtype).reshape(*shared.shape[:2], -1)
    out = product("hmn,hnd->hmd", weights, values).astype(q.dtype)
    return out.reshape(heads, m, size).swapaxes(0, 1).reshape(m, -1)
