"""Models whose code comes with their checkpoints: InternLM 2, Baichuan 7B, MiniCPM; and Apertus.

The converter takes the matrix of queries, keys and values apart, so that the first two are Llamas.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np

from edgespec.errors import EdgespecError, shortened
from edgespec_export.checkpoint.gguf.architectures.architecture import Architecture
from edgespec_export.checkpoint.gguf.architectures.decoder import (
    LAYER,
    decoder,
    decoder_config,
    stated,
)
from edgespec_export.checkpoint.gguf.gguf_header import GgufHeader
from edgespec_export.checkpoint.gguf.gguf_rope import FACTORS_OF_LONGROPE, ROPE_FACTORS
from edgespec_export.checkpoint.gguf.gguf_values import number
from edgespec_export.checkpoint.json_file import JsonObject
from edgespec_export.checkpoint.weights import Tensor, Weights, read_rows

__all__ = ["APERTUS", "BAICHUAN", "INTERNLM2", "MINICPM"]

_LAYERS_OF_BAICHUAN_7B = 32
# Numbers of each layer, in keys without the architecture's name; the first two are [1].
_XIELU = ("alpha_n", "alpha_p", "beta", "eps")


def _internlm2(header: GgufHeader) -> JsonObject:
    config = decoder_config(header, "internlm2", "LlamaForCausalLM")
    return {**config, "model_type": "llama"}


def _baichuan(header: GgufHeader) -> JsonObject:
    """llama.cpp gives rotary positions to those with 32 layers.

    A Baichuan 2's head must have been normalised before it was converted; llama.cpp does not.
    """
    config = decoder_config(header, "baichuan", "LlamaForCausalLM")
    layers = stated(config, "num_hidden_layers")
    if layers != _LAYERS_OF_BAICHUAN_7B:
        raise EdgespecError(
            f"{header.path}: a Baichuan with {layers} layers has ALiBi for positions; only those "
            f"with {_LAYERS_OF_BAICHUAN_7B} are supported"
        )
    return {**config, "model_type": "llama"}


def _minicpm(header: GgufHeader) -> JsonObject:
    """A Llama with three scales.

    Raises:
        EdgespecError: the file does not state them, or not as a MiniCPM has them.
    """
    config = decoder_config(header, "minicpm", "MiniCPMForCausalLM")
    residual, divisor = (number(header, f"minicpm.{name}_scale") for name in ("residual", "logit"))
    base = stated(config, "hidden_size") / divisor if divisor else 0.0
    if not base or base != int(base):
        raise EdgespecError(
            f"{header.path}: minicpm.logit_scale is {divisor}, which does not divide the width"
        )
    depth = residual * math.sqrt(stated(config, "num_hidden_layers"))
    long: JsonObject = {"original_max_position_embeddings": config["max_position_embeddings"]}
    return {
        **config,
        **(long if config["rope_scaling"] else {}),
        "scale_emb": number(header, "minicpm.embedding_scale"),
        "scale_depth": float(f"{depth:.6g}"),  # the file has 1.4 / √layers in float32
        "dim_model_base": int(base),
    }


def _apertus(header: GgufHeader) -> JsonObject:
    config = decoder_config(header, "apertus", "ApertusForCausalLM")
    return {**config, "hidden_act": "xielu", "qk_norm": True, "post_norm": False}


def _with_xielu(header: GgufHeader) -> Architecture:
    """The architecture with a layer's numbers of its activation, which are keys of the file.

    Raises:
        EdgespecError: a key is missing, or has not one number for each layer.
    """
    layers = stated(_apertus(header), "num_hidden_layers")
    found: dict[str, Tensor] = {}
    for name in _XIELU:
        value = header.metadata.get(f"xielu.{name}")
        numbers = [n for n in value if isinstance(n, float)] if isinstance(value, list) else []
        if len(numbers) != layers:
            raise EdgespecError(
                f"{header.path}: xielu.{name} is {shortened(value)}, not a number for each of "
                f"{layers} layers"
            )
        for layer, stored in enumerate(numbers):
            tensor = np.full((1,) * (name in _XIELU[:2]), stored, np.float32)
            found[f"model.layers.{layer}.mlp.act_fn.{name}"] = tensor
    return replace(APERTUS, restored=partial(_Added, found))


class _Added:
    """Weights, and tensors that the file has elsewhere."""

    def __init__(self, added: dict[str, Tensor], weights: Weights, config: JsonObject) -> None:
        self._added = added
        self._weights = weights

    def names(self) -> list[str]:
        return sorted([*self._weights.names(), *self._added])

    def shape(self, name: str) -> tuple[int, ...]:
        return self._added[name].shape if name in self._added else self._weights.shape(name)

    def read(self, name: str) -> Tensor:
        return self._added[name] if name in self._added else self._weights.read(name)

    def read_rows(self, name: str, start: int, stop: int) -> Tensor:
        if name in self._added:
            return self._added[name][start:stop]
        return read_rows(self._weights, name, start, stop)


INTERNLM2 = decoder("internlm2", _internlm2, "internlm2", reorders_heads=True)
BAICHUAN = decoder("baichuan", _baichuan, "baichuan", reorders_heads=True)
MINICPM = decoder(
    "minicpm",
    _minicpm,
    "minicpm",
    reorders_heads=True,
    of_config=FACTORS_OF_LONGROPE | {ROPE_FACTORS},
    keys=frozenset({"embedding_scale", "residual_scale", "logit_scale"}),
)
APERTUS = decoder(
    "apertus",
    _apertus,
    "apertus",
    layer={**LAYER, "attn_norm": "attention_layernorm", "ffn_norm": "feedforward_layernorm"},
    variant=_with_xielu,
)
