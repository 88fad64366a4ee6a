"""Weights in a GGUF file, by their Hugging Face names and dequantized."""

from __future__ import annotations

import re
from collections.abc import Mapping

import ml_dtypes
import numpy as np
from gguf.quants import dequantize

from edgespec.errors import EdgespecError, shortened
from edgespec_export.checkpoint.gguf.gguf_header import GgufHeader
from edgespec_export.checkpoint.gguf.gguf_rope import ROPE_FACTORS
from edgespec_export.checkpoint.weights import Tensor, missing_tensor

__all__ = ["GgufWeights"]

_MODEL = {
    "output.weight": "lm_head.weight",
    "output_norm.weight": "model.norm.weight",
    "token_embd.weight": "model.embed_tokens.weight",
}
_LAYER = {
    "attn_k": "self_attn.k_proj",
    "attn_k_norm": "self_attn.k_norm",
    "attn_norm": "input_layernorm",
    "attn_output": "self_attn.o_proj",
    "attn_q": "self_attn.q_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_v": "self_attn.v_proj",
    "ffn_down": "mlp.down_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_up": "mlp.up_proj",
}
# Names in models with norms after each block.
_LAYER_WITH_NORMS_AFTER = {
    **_LAYER,
    "ffn_norm": "pre_feedforward_layernorm",
    "post_attention_norm": "post_attention_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
_NORMS_AFTER = {"gemma2", "gemma3", "olmo2", "exaone4"}  # architectures
_NORMS_WITH_ONE = {"gemma", "gemma2", "gemma3"}  # whose norms multiply by 1 + w
_IN_LAYER = re.compile(r"blk\.(\d+)\.(\w+)\.(weight|bias)")
_STORED = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": np.dtype(ml_dtypes.bfloat16)}


class GgufWeights:
    """The tensors of a GGUF file; `read` reads and dequantizes one.

    llama.cpp applies RoPE to neighbouring pairs of a head, Hugging Face to its two halves. So
    llama.cpp's converter reorders the rows of the query and key matrices of architecture "llama".
    `read` restores the order. The converter also adds 1 to the norms of a Gemma; `read` subtracts
    it.
    """

    def __init__(self, header: GgufHeader, heads: Mapping[str, int]) -> None:
        """Finds the Hugging Face name of every tensor.

        Args:
            header: the file.
            heads: number of heads of each projection ("q_proj", "k_proj") with reordered rows.

        Raises:
            EdgespecError: a tensor that a Llama-like model does not have, by name.
        """
        self._header = header
        self._heads = heads
        arch = header.metadata.get("general.architecture")
        self._adds_one = arch in _NORMS_WITH_ONE
        in_layer = _LAYER_WITH_NORMS_AFTER if arch in _NORMS_AFTER else _LAYER
        self._stored_names = {
            _hugging_face_name(header, name, in_layer): name
            for name in header.tensors
            if name != ROPE_FACTORS
        }

    def names(self) -> list[str]:
        """Every tensor's name, sorted."""
        return sorted(self._stored_names)

    def shape(self, name: str) -> tuple[int, ...]:
        """The tensor's shape."""
        return self._header.tensors[self._stored_name(name)].shape

    def read(self, name: str) -> Tensor:
        """The tensor: float32, float16 or bfloat16 if stored so, else dequantized to float32.

        Raises:
            EdgespecError: no such tensor, or a quantization that gguf cannot dequantize.
        """
        values = self._values(self._stored_name(name), 0, self.shape(name)[0])
        if self._adds_one and name.endswith("norm.weight"):
            return values.astype(np.float32) - np.float32(1)
        heads = self._heads_of(name)
        if heads is None:
            return values
        if values.shape[0] % (2 * heads):
            raise EdgespecError(
                f"{self._header.path}: {name} has {values.shape[0]} rows for {heads} heads"
            )
        return _unpermuted(values, heads)

    def read_rows(self, name: str, start: int, stop: int) -> Tensor:
        """Rows of `read`; of reordered ones and of norms the whole is read."""
        if self._heads_of(name) is not None or name.endswith("norm.weight"):
            return self.read(name)[start:stop]
        return self._values(self._stored_name(name), start, stop)

    def _heads_of(self, name: str) -> int | None:
        """Of a projection whose rows are reordered."""
        return self._heads.get(name.split(".")[-2])

    def _values(self, stored_name: str, start: int, stop: int) -> Tensor:
        tensor = self._header.tensors[stored_name]
        kind = tensor.kind.name
        path = tensor.file
        row = tensor.bytes // tensor.shape[0]
        offset = tensor.offset + start * row
        data = np.fromfile(path, np.uint8, (stop - start) * row, offset=offset)
        if data.size != (stop - start) * row:
            raise EdgespecError(f"{path}: {stored_name} is cut off: the file changed while read")
        shape = (stop - start, *tensor.shape[1:])
        if kind in _STORED:
            return np.asarray(data.view(_STORED[kind])).reshape(shape)
        try:
            rows = data.reshape(*shape[:-1], -1)
            return np.asarray(dequantize(rows, tensor.kind), order="C")
        except NotImplementedError as error:
            raise EdgespecError(
                f"{path}: {stored_name} is stored as {kind}, which gguf cannot dequantize: "
                "take a file in Q8_0, F16 or BF16"
            ) from error

    def _stored_name(self, name: str) -> str:
        if name not in self._stored_names:
            raise missing_tensor(self._header.path, name, self._stored_names)
        return self._stored_names[name]


def _hugging_face_name(header: GgufHeader, name: str, in_layer: Mapping[str, str]) -> str:
    if name in _MODEL:
        return _MODEL[name]
    match = _IN_LAYER.fullmatch(name)
    if match is None or match[2] not in in_layer:
        raise EdgespecError(f"{header.path}: tensor {shortened(name)} is not known")
    return f"model.layers.{match[1]}.{in_layer[match[2]]}.{match[3]}"


def _unpermuted(values: Tensor, heads: int) -> Tensor:
    """[heads · size, …]: the rows in two halves of each head instead of neighbouring pairs."""
    pairs = values.reshape(heads, -1, 2, *values.shape[1:])
    return np.asarray(pairs.swapaxes(1, 2).reshape(values.shape))
