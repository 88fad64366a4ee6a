"""Checkpoints as JAX models: the same files and names that `edgespec export` reads."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from edgespec.errors import EdgespecError, UsageError
from edgespec_export.checkpoint import open_checkpoint
from edgespec_export.families import family_of
from edgespec_export.families.llama import Llama
from edgespec_export.families.t5 import T5
from edgespec_export.sources import resolve
from edgespec_export.weights import Weights
from edgespec_runtimes.jax_blocks import Network, Params
from edgespec_runtimes.jax_llama import JaxLlama
from edgespec_runtimes.jax_t5 import JaxT5

__all__ = ["DTYPES", "JaxModel", "network_of", "open_jax_model", "read_params"]

DTYPES: dict[str, Any] = {"fp32": jnp.float32, "bf16": jnp.bfloat16}


class JaxModel(NamedTuple):
    """A network and its weights.

    Attributes:
        capacity: positions its text may have.
        eos_token_ids: tokens that end a text.
    """

    network: Network
    params: Params
    capacity: int
    eos_token_ids: tuple[int, ...]


def open_jax_model(name: str, number_format: str = "fp32") -> JaxModel:
    """A checkpoint folder, GGUF file, hub id or short name, loaded on JAX's default device.

    Args:
        number_format: "fp32", multiplied at precision "highest", or "bf16".

    Raises:
        EdgespecError: it is not a checkpoint that edgespec understands.
    """
    if number_format not in DTYPES:
        raise UsageError(f"format is {number_format!r}; give one of: {', '.join(DTYPES)}")
    checkpoint = open_checkpoint(resolve(name))
    shape = family_of(checkpoint.config, checkpoint.label)
    params = read_params(checkpoint.weights, DTYPES[number_format])
    return JaxModel(network_of(shape), params, shape.capacity, checkpoint.eos_token_ids)


def network_of(shape: Any) -> Network:
    """The network of a family's shape.

    Raises:
        EdgespecError: the family is not implemented in JAX.
    """
    if isinstance(shape, T5):
        return JaxT5(shape)
    if isinstance(shape, Llama):
        return JaxLlama(shape)
    raise EdgespecError(
        f"{type(shape).__name__} models have no JAX path; it has T5 and Llama-like ones"
    )


def read_params(weights: Weights, dtype: Any) -> Params:
    """Every tensor in one number format; copies of T5's embedding are left out."""
    return {
        name: _array(weights.read(name), dtype)
        for name in weights.names()
        if not name.endswith("coder.embed_tokens.weight")
    }


def _array(tensor: Any, dtype: Any) -> Array:
    return jnp.array(tensor, dtype)  # a copy: the file is mapped, and may go away
