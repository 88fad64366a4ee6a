"""The building blocks of both families in plain JAX. Positions are rows: x is [m, width].

Precision: float32 multiplies at precision "highest" on every device (no TF32, no bfloat16 passes);
bfloat16 multiplies in one pass and accumulates in float32. Norms, softmax, RoPE angles and logits
are float32 in both formats.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax.numpy as jnp
from jax.typing import DTypeLike

import jax
from jax import Array, lax

__all__ = [
    "ACTIVATIONS",
    "HEAD",
    "HIDDEN",
    "Cache",
    "Network",
    "Params",
    "append",
    "attend",
    "empty_cache",
    "heads_of",
    "linear",
    "outputs_first",
    "product",
    "rms_norm",
]

# Tensors by their names in the checkpoint, a matrix that multiplies as `linear` takes it.
Params = dict[str, Array]
HEAD = "lm_head.weight"  # always present: the embedding where the checkpoint has no head
HIDDEN = -1e30  # added to the score of a position that must not be attended to

# By the names in config.json; each maps an array to one of the same shape.
ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": jax.nn.relu,
    "silu": jax.nn.silu,
    "gelu": partial(jax.nn.gelu, approximate=False),
    "gelu_new": partial(jax.nn.gelu, approximate=True),
    "gelu_pytorch_tanh": partial(jax.nn.gelu, approximate=True),
}


class Cache(NamedTuple):
    """Keys and values of one layer, [kv_heads, capacity, size] each; a batch adds a first axis.

    A call writes its own positions and attends to none after them, so a rewind needs only a
    smaller length.
    """

    keys: Array
    values: Array


class Network(Protocol):
    """The interface between the compiled loop and a model family. JAX can trace every method.

    Attributes:
        vocab_size: width of a row of logits.
        layers, kv_heads, head_size: the shape of the decoder's cache.
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
        """Starts a text from the first `length` tokens of `prompt` (int32 [capacity], padded).

        Returns:
            What `decode` needs in addition to the cache; the cache; the pending token; its
            position.
        """
        ...

    def decode(
        self, params: Params, context: Any, cache: tuple[Cache, ...], tokens: Array, past: Array
    ) -> tuple[Array, tuple[Cache, ...]]:
        """Scores `tokens` (int32 [m]), the first of them at position `past`.

        Returns:
            Logits after each token, float32 [m, V]; the cache.
        """
        ...


def empty_cache(network: Network, capacity: int, dtype: DTypeLike) -> tuple[Cache, ...]:
    """A cache of zeros for every layer, with room for `capacity` positions."""
    shape = (network.kv_heads, capacity, network.head_size)
    return tuple(
        Cache(jnp.zeros(shape, dtype), jnp.zeros(shape, dtype)) for _ in range(network.layers)
    )


def product(equation: str, x: Array, y: Array) -> Array:
    """An einsum that returns float32, at the precision that the module's docstring states."""
    exact = lax.Precision.HIGHEST if x.dtype == jnp.float32 else lax.Precision.DEFAULT
    return jnp.einsum(equation, x, y, precision=exact, preferred_element_type=jnp.float32)


def outputs_first() -> bool:
    """Whether a matrix that multiplies is [out, in], as checkpoints have it, or [in, out].

    XLA's CPU backend transposes [out, in] at every call of several positions. Its GPU backend
    writes all products of a small [in, out] to memory at every call of one position.
    """
    return jax.default_backend() != "cpu"


def linear(x: Array, weight: Array, bias: Array | None = None) -> Array:
    """x · W (+ b) for a matrix with the axes that `outputs_first` says: [m, out]."""
    equation = "mi,oi->mo" if outputs_first() else "mi,io->mo"
    out = product(equation, x, weight).astype(x.dtype)
    return out if bias is None else out + bias


def rms_norm(x: Array, weight: Array, epsilon: float) -> Array:
    """x / √(mean(x²) + ε) · weight, over the last axis."""
    wide = x.astype(jnp.float32)
    scale = lax.rsqrt((wide * wide).mean(-1, keepdims=True) + epsilon)
    return (wide * scale).astype(x.dtype) * weight


def heads_of(x: Array, count: int) -> Array:
    """[m, count · size] to [count, m, size]."""
    return x.reshape(x.shape[0], count, -1).swapaxes(0, 1)


def append(cache: Cache, keys: Array, values: Array, past: Array) -> Cache:
    """Writes keys and values [kv_heads, m, size] at positions past … past + m - 1."""
    start = (0, past, 0)
    return Cache(
        lax.dynamic_update_slice(cache.keys, keys.astype(cache.keys.dtype), start),
        lax.dynamic_update_slice(cache.values, values.astype(cache.values.dtype), start),
    )


def attend(q: Array, keys: Array, values: Array, bias: Array, scale: float) -> Array:
    """softmax(q · kᵀ · scale + bias) · v; neighbouring query heads share a key-value head.

    Args:
        q: [heads, m, size].
        keys, values: [kv_heads, n, size].
        bias: float32 [heads or 1, m or 1, n].

    Returns:
        [m, heads · size].
    """
    heads, m, size = q.shape
    shared = q.reshape(keys.shape[0], -1, size)  # the query heads of a group are stacked
    scores = product("hmd,hnd->hmn", shared, keys).reshape(heads, m, -1) * scale + bias
    weights = jax.nn.softmax(scores).astype(values.dtype).reshape(*shared.shape[:2], -1)
    out = product("hmn,hnd->hmd", weights, values).astype(q.dtype)
    return out.reshape(heads, m, size).swapaxes(0, 1).reshape(m, -1)
