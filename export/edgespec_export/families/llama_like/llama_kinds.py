"""How the models of each `model_type` of the Llama family differ, as transformers reads them.

A new name of a known model is one entry here. What a config may leave out (base, epsilon, tie, head
size) is in config_keys.json.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

__all__ = ["KINDS", "NORMS_AFTER", "RELATIVES", "RENAMED", "LlamaKind", "Windows"]

# Which layers have a stated window: none, as the model type has no windows; all; those listed in
# `layer_types`, else all; those listed, else from `max_window_layers` on, if the config asks.
Windows = Literal["none", "every", "listed", "asked"]

ATTENTION_BIAS, MLP_BIAS = ("attention_bias",), ("mlp_bias",)


@dataclass(frozen=True)
class LlamaKind:
    """The differences of one model type.

    Attributes:
        qkv_bias, out_bias, mlp_bias: the config's keys for biases of the projections, of which the
            first that is stated counts; none if there are no biases, whatever the config says.
        always_qkv_bias: queries, keys and values have biases without a key.
        head_norms: queries and keys are normalised head by head.
        windows: which layers have a stated window of positions.
        neighbours: rotary positions turn pairs of neighbouring numbers, not of two halves.
        partial: a part of each head may be rotated.
        gate_up: one matrix holds both inputs of the feed-forward.
        row_norms: queries and keys are normalised as whole rows.
        pattern: where layers differ, every how many-th is global by default; 0 if none has a
            window of its own.
        rope_by_kind: windowed and global layers have rotary settings of their own.
        pictures: rotary settings also say how rows and columns of pictures are counted.
        windows_rotate_alone: beside windowed layers, global ones have no rotary positions.
    """

    qkv_bias: tuple[str, ...] = ()
    out_bias: tuple[str, ...] = ()
    mlp_bias: tuple[str, ...] = ()
    always_qkv_bias: bool = False
    head_norms: bool = False
    windows: Windows = "none"
    neighbours: bool = False
    partial: bool = False
    gate_up: bool = False
    row_norms: bool = False
    pattern: int = 0
    rope_by_kind: bool = False
    windows_rotate_alone: bool = False
    pictures: bool = False


LLAMA = LlamaKind(qkv_bias=ATTENTION_BIAS, out_bias=ATTENTION_BIAS, mlp_bias=MLP_BIAS)
_INTERNLM3 = ("attention_bias", "qkv_bias")
_ERNIE = ("use_bias",)

KINDS: Mapping[str, LlamaKind] = {
    "llama": LLAMA,
    "mistral": LlamaKind(windows="every"),
    "qwen2": LlamaKind(always_qkv_bias=True, windows="asked"),
    "qwen3": LlamaKind(
        qkv_bias=ATTENTION_BIAS, out_bias=ATTENTION_BIAS, head_norms=True, windows="asked"
    ),
}
# Other names of a Llama (llama_like/renamed.py).
RENAMED: Mapping[str, LlamaKind] = {
    "ministral": LlamaKind(windows="listed"),
    "seed_oss": LlamaKind(
        qkv_bias=ATTENTION_BIAS, out_bias=("attention_out_bias",), mlp_bias=MLP_BIAS
    ),
    "internlm3": LlamaKind(qkv_bias=_INTERNLM3, out_bias=_INTERNLM3, mlp_bias=("mlp_bias", "bias")),
    "helium": LlamaKind(qkv_bias=ATTENTION_BIAS, mlp_bias=MLP_BIAS, neighbours=True),
    "glm": LlamaKind(qkv_bias=ATTENTION_BIAS, neighbours=True, partial=True, gate_up=True),
    "qwen3_vl_text": LlamaKind(
        qkv_bias=ATTENTION_BIAS, out_bias=ATTENTION_BIAS, head_norms=True, pictures=True
    ),
    "ernie4_5": LlamaKind(qkv_bias=_ERNIE, out_bias=_ERNIE, mlp_bias=_ERNIE, neighbours=True),
}
# Relatives with a family of their own, whose other keys are a Llama's.
RELATIVES: Mapping[str, LlamaKind] = {
    "smollm3": LlamaKind(
        qkv_bias=ATTENTION_BIAS, out_bias=ATTENTION_BIAS, mlp_bias=MLP_BIAS, windows="asked"
    ),
    "gpt_oss": LlamaKind(qkv_bias=ATTENTION_BIAS, out_bias=ATTENTION_BIAS, windows="listed"),
    "granite": LLAMA,
    "granitemoehybrid": LlamaKind(qkv_bias=ATTENTION_BIAS, out_bias=ATTENTION_BIAS),
    "arcee": LLAMA,
    "ministral3": LlamaKind(windows="every"),
    "hunyuan_v1_dense": LlamaKind(qkv_bias=ATTENTION_BIAS, out_bias=ATTENTION_BIAS),
    "apertus": LlamaKind(qkv_bias=ATTENTION_BIAS, out_bias=ATTENTION_BIAS, head_norms=True),
    "glm4": LlamaKind(qkv_bias=ATTENTION_BIAS, neighbours=True, partial=True, gate_up=True),
    "minicpm": LlamaKind(qkv_bias=ATTENTION_BIAS, out_bias=ATTENTION_BIAS),
    "internlm2": LlamaKind(qkv_bias=("bias",), out_bias=("bias",)),
    "baichuan": LlamaKind(),
    "qwen3_moe": LlamaKind(
        qkv_bias=ATTENTION_BIAS, out_bias=ATTENTION_BIAS, head_norms=True, windows="asked"
    ),
}
# Models whose only norms come after their blocks (llama_like/norms_after.py).
NORMS_AFTER: Mapping[str, LlamaKind] = {
    "olmo2": LlamaKind(qkv_bias=ATTENTION_BIAS, out_bias=ATTENTION_BIAS, row_norms=True),
    "olmo3": LlamaKind(
        qkv_bias=ATTENTION_BIAS,
        out_bias=ATTENTION_BIAS,
        row_norms=True,
        pattern=4,
        rope_by_kind=True,
    ),
    "exaone4": LlamaKind(head_norms=True, pattern=4, windows_rotate_alone=True),
}
