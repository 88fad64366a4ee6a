"""Qwen3.5, whose value heads the converter tiles: the first of each key head, then the second, ….

A checkpoint has those of a key head side by side. The converter also stores norms as 1 + w, but for
those of delta rules, and what a head forgets as -exp(A_log). The head for several tokens is one
block more (llama.cpp's conversion/qwen.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

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
from edgespec_export.checkpoint.gguf.gguf_values import count
from edgespec_export.checkpoint.json_file import JsonObject
from edgespec_export.checkpoint.weights import Tensor, Weights

__all__ = ["QWEN35"]

_NORM = re.compile(r"norm(_embedding|_hidden)?\.weight$")
_HEADS = "nextn_predict_layers"
_INTERVAL = 4  # of layers with attention, where a file does not state it
_DELTA = "linear_attn"
_LAYER = {
    **LAYER,
    "post_attention_norm": "post_attention_layernorm",
    "attn_qkv": f"{_DELTA}.in_proj_qkv",
    "attn_gate": f"{_DELTA}.in_proj_z",
    "ssm_alpha": f"{_DELTA}.in_proj_a",
    "ssm_beta": f"{_DELTA}.in_proj_b",
    "ssm_conv1d": f"{_DELTA}.conv1d",
    "ssm_dt": f"{_DELTA}.dt_bias",
    "ssm_norm": f"{_DELTA}.norm",
    "ssm_out": f"{_DELTA}.out_proj",
}
_OF_HEAD = {
    "nextn.eh_proj": "mtp.fc",
    "nextn.enorm": "mtp.pre_fc_norm_embedding",
    "nextn.hnorm": "mtp.pre_fc_norm_hidden",
    "nextn.shared_head_norm": "mtp.norm",
}


def _heads(header: GgufHeader) -> int:
    """Heads for several tokens: none or one."""
    heads = header.metadata.get(f"qwen35.{_HEADS}", 0)
    if heads not in (0, 1):
        raise EdgespecError(
            f"{header.path}: qwen35.{_HEADS} is {shortened(heads)}; at most one is supported"
        )
    return int(bool(heads))


def _qwen35(header: GgufHeader) -> JsonObject:
    config = decoder_config(header, "qwen35", "Qwen3_5ForCausalLM", partial=True)
    values = count(header, "qwen35.ssm.time_step_rank")
    inner, size = count(header, "qwen35.ssm.inner_size"), stated(config, "head_dim")
    if inner % values:
        raise EdgespecError(
            f"{header.path}: qwen35.ssm.inner_size is {inner}, no multiple of {values} heads"
        )
    return {
        **config,
        "model_type": "qwen3_5_text",
        "num_hidden_layers": stated(config, "num_hidden_layers") - _heads(header),
        "full_attention_interval": count(header, "qwen35.full_attention_interval", _INTERVAL),
        "linear_num_key_heads": count(header, "qwen35.ssm.group_count"),
        "linear_num_value_heads": values,
        "linear_key_head_dim": count(header, "qwen35.ssm.state_size"),
        "linear_value_head_dim": inner // values,
        "linear_conv_kernel_dim": count(header, "qwen35.ssm.conv_kernel"),
        "mtp_num_hidden_layers": _heads(header),
        "partial_rotary_factor": count(header, "qwen35.rope.dimension_count", size) / size,
    }


def _named(header: GgufHeader) -> Architecture:
    """The architecture with the names of a file's layers."""
    layers = count(header, "qwen35.block_count") - _heads(header)
    outside = {
        f"blk.{layer}.ssm_a": f"model.layers.{layer}.{_DELTA}.A_log" for layer in range(layers)
    }
    if _heads(header):
        head = {part: f"mtp.layers.0.{name}" for part, name in _LAYER.items()} | _OF_HEAD
        outside |= {f"blk.{layers}.{part}.weight": f"{name}.weight" for part, name in head.items()}
    return replace(QWEN35, outside={**QWEN35.outside, **outside})


class _Restored:
    """Tensors as the checkpoint has them, from those that the converter made.

    Args:
        config: of `_qwen35`.
    """

    def __init__(self, weights: Weights, config: JsonObject) -> None:
        self._weights = weights
        self._keys = stated(config, "linear_num_key_heads")
        self._values = stated(config, "linear_num_value_heads")
        self._size = stated(config, "linear_value_head_dim")

    def names(self) -> list[str]:
        return self._weights.names()

    def shape(self, name: str) -> tuple[int, ...]:
        return self._weights.shape(name)

    def read(self, name: str) -> Tensor:
        tensor = self._weights.read(name)
        part = name.rpartition(f"{_DELTA}.")[2]
        if part in _TILED:
            axis, is_whole = _TILED[part]
            return self._grouped(tensor, axis, self._size if is_whole else 1)
        if _NORM.search(name) and part != "norm.weight":
            return tensor.astype(np.float32) - np.float32(1)
        if part == "A_log":
            stays = self._grouped(tensor, 0, 1).astype(np.float64)
            if not (stays < 0).all():
                raise EdgespecError(f"{name} is stored as numbers that are not all below 0")
            return np.log(-stays).astype(np.float32)
        return tensor

    def read_rows(self, name: str, start: int, stop: int) -> Tensor:
        return self.read(name)[start:stop]

    def _grouped(self, tensor: Tensor, axis: int, size: int) -> Tensor:
        """The last value heads along an axis, `size` numbers each, in the checkpoint's order."""
        before, heads = np.split(tensor, [tensor.shape[axis] - self._values * size], axis)
        shape = heads.shape
        split = (*shape[:axis], -1, self._keys, size, *shape[axis + 1 :])
        heads = heads.reshape(split).swapaxes(axis, axis + 1).reshape(shape)
        return np.concatenate([before, heads], axis)


# The axis of value heads, and whether each is a head's numbers, not one number. Queries and keys
# come before the values of the first three.
_TILED: Mapping[str, tuple[int, bool]] = MappingProxyType(
    {
        "in_proj_qkv.weight": (0, True),
        "conv1d.weight": (0, True),
        "in_proj_z.weight": (0, True),
        "in_proj_a.weight": (0, False),
        "in_proj_b.weight": (0, False),
        "dt_bias": (0, False),
        "out_proj.weight": (1, True),
    }
)

QWEN35 = decoder(
    "qwen35",
    _qwen35,
    "qwen3_5_text",
    layer=_LAYER,
    squeezed=(".conv1d.weight",),
    without_suffix=frozenset({f"{_DELTA}.dt_bias"}),
    keys=frozenset({"full_attention_interval", "rope.dimension_sections", _HEADS})
    | {f"ssm.{name}" for name in ("conv_kernel", "group_count", "inner_size")}
    | {f"ssm.{name}" for name in ("state_size", "time_step_rank")},
    variant=_named,
    restored=_Restored,
)
