"""Checkpoints as JAX models: the same files and names that `edgespec export` reads."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp

from edgespec.errors import EdgespecError, UsageError
from edgespec_export.checkpoint.checkpoint import open_checkpoint
from edgespec_export.checkpoint.sources import resolve
from edgespec_export.checkpoint.weights import Weights
from edgespec_export.families.eagle import Eagle
from edgespec_export.families.llama import Llama
from edgespec_export.families.t5 import T5
from edgespec_export.families.tensor_check import fitted
from edgespec_jax.jax_blocks import HEAD, Network, Params
from edgespec_jax.jax_llama import JaxLlama
from edgespec_jax.jax_t5 import JaxT5
from jax import Array

__all__ = ["DTYPES", "JaxModel", "open_jax_model"]

TABLES = ("embed_tokens.weight", "shared.weight", "relative_attention_bias.weight")
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
    shape = fitted(checkpoint)
    if isinstance(shape, Eagle) or not isinstance(shape, T5 | Llama):
        raise EdgespecError(
            f"{checkpoint.label}: is of family {shape.family}; the JAX path has T5 and Llama only"
        )
    network = JaxT5(shape) if isinstance(shape, T5) else JaxLlama(shape)
    params = _read(checkpoint.weights, shape, DTYPES[number_format])
    return JaxModel(network, params, shape.capacity, checkpoint.eos_token_ids)


def _read(weights: Weights, shape: T5 | Llama, dtype: Any) -> Params:
    """Every tensor in one number format, as `edgespec_jax.jax_blocks.Params` has them."""
    names = [name for name in weights.names() if name not in shape.copies]
    params = {name: _array(name, weights.read(name), dtype) for name in names}
    return params | {HEAD: params[shape.table].T} if shape.tied_head else params


def _array(name: str, tensor: Any, dtype: Any) -> Array:
    """On the device; a copy, because the file is mapped and may go away."""
    turned = tensor.ndim == 2 and not name.endswith(TABLES)
    return jnp.array(tensor.T if turned else tensor, dtype)
