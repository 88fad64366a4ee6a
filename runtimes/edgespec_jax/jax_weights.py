"""A checkpoint's config and tensors as a JAX network and its parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.typing import DTypeLike

from edgespec.errors import EdgespecError, UsageError
from edgespec_jax.jax_blocks import ACTIVATIONS, HEAD, Network, Params, outputs_first
from edgespec_jax.jax_config import LLAMA_TYPES, T5_TYPES, LlamaConfig, T5Config
from edgespec_jax.jax_llama import JaxLlama
from edgespec_jax.jax_t5 import JaxT5
from jax import Array

__all__ = ["DTYPES", "LOOKUP_TABLES", "JaxCheckpoint", "JaxModel", "load_jax_model"]

LOOKUP_TABLES = ("embed_tokens.weight", "shared.weight", "relative_attention_bias.weight")
DTYPES: dict[str, DTypeLike] = {"fp32": jnp.float32, "bf16": jnp.bfloat16}


class JaxCheckpoint(Protocol):
    """What is read of a checkpoint, whatever file format it has.

    Attributes:
        label: the checkpoint's name, for messages.
        config: the values of config.json. A value that changes what the model computes, and that
            `jax_config` does not read, must have been refused.
        eos_token_ids: token ids that end a text.
    """

    @property
    def label(self) -> str: ...
    @property
    def config(self) -> Mapping[str, Any]: ...
    @property
    def eos_token_ids(self) -> tuple[int, ...]: ...

    def names(self) -> Iterable[str]:
        """The names of all tensors."""
        ...

    def tensor(self, name: str) -> npt.NDArray[np.generic]:
        """A tensor as stored; it may be mapped from the file."""
        ...


class JaxModel(NamedTuple):
    """A network and its parameters.

    Attributes:
        eos_token_ids: token ids that end a text.
    """

    network: Network
    params: Params
    eos_token_ids: tuple[int, ...]


def load_jax_model(checkpoint: JaxCheckpoint, number_format: str = "fp32") -> JaxModel:
    """Loads a checkpoint on JAX's default device.

    Args:
        number_format: "fp32", multiplied at precision "highest", or "bf16".

    Raises:
        UsageError: another number format.
        EdgespecError: a model that has no implementation in JAX.
    """
    if number_format not in DTYPES:
        raise UsageError(f"format is {number_format!r}; give one of: {', '.join(DTYPES)}")
    network = _network(checkpoint)
    names = [name for name in checkpoint.names() if name not in network.unused_tensors]
    dtype = DTYPES[number_format]
    params = {name: _parameter(name, checkpoint.tensor(name), dtype) for name in names}
    _fuse(params, network.fusions)
    if HEAD not in params:  # the head is the embedding
        table = params[network.embedding]
        params[HEAD] = table if outputs_first() else table.T
    return JaxModel(network, params, checkpoint.eos_token_ids)


def _network(checkpoint: JaxCheckpoint) -> JaxLlama | JaxT5:
    kind = checkpoint.config.get("model_type")
    if kind not in LLAMA_TYPES + T5_TYPES:
        raise EdgespecError(
            f"{checkpoint.label}: model_type is {kind!r}; the JAX path has "
            f"{', '.join(LLAMA_TYPES + T5_TYPES)}"
        )
    values = checkpoint.config
    network: JaxLlama | JaxT5
    if kind in T5_TYPES:
        network = JaxT5(T5Config.from_values(values))
    else:
        network = JaxLlama(LlamaConfig.from_values(values))
    if network.config.activation not in ACTIVATIONS:
        raise EdgespecError(
            f"{checkpoint.label}: its activation is {network.config.activation!r}; the JAX path "
            f"has {', '.join(ACTIVATIONS)}"
        )
    return network


def _fuse(params: Params, fusions: Mapping[str, tuple[str, ...]]) -> None:
    """Replaces matrices that multiply the same rows by one: fewer calls, each of more work."""
    for name in list(params):
        for fused, parts in fusions.items():
            if name.endswith(f".{parts[0]}.weight"):
                block = name.removesuffix(f"{parts[0]}.weight")
                matrices = [params.pop(f"{block}{part}.weight") for part in parts]
                axis = 0 if outputs_first() else 1
                params[f"{block}{fused}.weight"] = jnp.concatenate(matrices, axis)


def _parameter(name: str, tensor: npt.NDArray[np.generic], dtype: DTypeLike) -> Array:
    """A tensor as `jax_blocks.Params` has it.

    It is a copy on the device, because the file may be unmapped.
    """
    multiplies = tensor.ndim == 2 and not name.endswith(LOOKUP_TABLES)
    swapped = multiplies and not outputs_first()
    return jnp.array(np.transpose(tensor) if swapped else tensor, dtype)
