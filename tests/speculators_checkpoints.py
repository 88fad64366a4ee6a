"""Random drafts in the layout of the package "speculators", as checkpoints."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from eagle3_checkpoints import HEAD_SIZE, HEADS, INNER, KV_HEADS, LAYERS, WIDTH
from eagle_checkpoints import SIZE

PROPOSED = 100
Tensors = dict[str, torch.Tensor]

# What transformers' classes write for a draft's layers.
LAYER_CONFIG: dict[str, Any] = {
    "attention_bias": False,
    "attention_dropout": 0.0,
    "head_dim": HEAD_SIZE,
    "hidden_act": "silu",
    "hidden_size": WIDTH,
    "initializer_range": 0.02,
    "intermediate_size": INNER,
    "max_position_embeddings": 64,
    "num_attention_heads": HEADS,
    "num_hidden_layers": 1,
    "num_key_value_heads": KV_HEADS,
    "rms_norm_eps": 1e-5,
    "rope_parameters": {"rope_theta": 5000.0, "rope_type": "default"},
    "transformers_version": "5.18.0",
    "use_cache": True,
    "vocab_size": SIZE,
}
LLAMA = {**LAYER_CONFIG, "mlp_bias": False, "model_type": "llama", "pretraining_tp": 1}
QWEN3 = {
    **LAYER_CONFIG,
    "max_window_layers": 28,
    "model_type": "qwen3",
    "sliding_window": None,
    "use_sliding_window": False,
}


def layout(kind: str, layers: dict[str, Any], **own: Any) -> dict[str, Any]:
    """The config.json of a draft of the package, of which `layers` describes the layers."""
    drafted = own.get("block_size", 3) - (kind != "dspark" and "block_size" in own)
    methods = [{"proposal_type": "greedy", "speculative_tokens": drafted, "verifier_accept_k": 1}]
    return {
        "architectures": [f"{kind.capitalize()}Speculator"],
        "auto_map": {"": f"{kind}.Config"},
        "draft_vocab_size": PROPOSED,
        "dtype": "float32",
        "has_no_defaults_at_init": False,
        "speculators_config": {
            "algorithm": kind,
            "default_proposal_method": "greedy",
            "proposal_methods": methods,
            "verifier": {"architectures": ["LlamaForCausalLM"], "name_or_path": None},
        },
        "speculators_model_type": kind,
        "speculators_version": "0.9.0",
        "tie_word_embeddings": False,
        "transformer_layer_config": layers,
        "transformers_version": "5.18.0",
        **own,
    }


YARN = {
    "rope_parameters": {
        "factor": 4.0,
        "original_max_position_embeddings": 16,
        "rope_theta": 5000.0,
        "rope_type": "yarn",
    }
}
WINDOWED = {"layer_types": ["full_attention", "sliding_attention"], "sliding_window": 4}
EAGLE3_CONFIGS: dict[str, dict[str, Any]] = {
    "llama": layout(
        "eagle3",
        LLAMA,
        embed_requires_grad=False,
        norm_before_residual=False,
        target_hidden_size=None,
        eagle_aux_hidden_state_layer_ids=None,
    ),
    "qwen3": layout(
        "eagle3",
        {**QWEN3, "attention_bias": True, "num_hidden_layers": 2},
        norm_before_residual=True,
        norm_before_fc=True,
        eagle_aux_hidden_state_layer_ids=[1, 4, 6],
    ),
    "normed": layout(
        "eagle3",
        {**LLAMA, **YARN, "mlp_bias": True},
        draft_vocab_size=SIZE,
        fc_norm=True,
        norm_output=True,
        eagle_aux_hidden_state_layer_ids=[3, 5],
    ),
    "windowed": layout("eagle3", {**LLAMA, **WINDOWED, "num_hidden_layers": 2}),
}


DEEP = {"num_hidden_layers": 3}
BLOCK_WINDOWS = {
    "layer_types": ["sliding_attention", "full_attention"],
    "num_hidden_layers": 2,
    "sliding_window": 4,
    "use_sliding_window": True,
}
BLOCK = {"block_size": 5, "mask_token_id": 7}
BLOCK_CONFIGS: dict[str, dict[str, Any]] = {
    "dflash": layout("dflash", {**QWEN3, **DEEP}, **BLOCK, aux_hidden_state_layer_ids=[1, 4, 6]),
    "dflash_windowed": layout(
        "dflash",
        {**QWEN3, **BLOCK_WINDOWS},
        **BLOCK,
        aux_hidden_state_layer_ids=[2, 4, 5],
        draft_vocab_size=SIZE,
        sample_from_anchor=True,
    ),
    "dspark": layout(
        "dspark",
        {**QWEN3, **DEEP, "attention_bias": True},
        **BLOCK,
        aux_hidden_state_layer_ids=[2, 5],
        markov_rank=16,
    ),
    "dspark_gated": layout(
        "dspark",
        {**QWEN3, **BLOCK_WINDOWS, **YARN},
        **BLOCK,
        aux_hidden_state_layer_ids=[3],
        confidence_head_with_markov=False,
        markov_head_type="gated",
        markov_rank=16,
        max_anchors=256,
        sample_from_anchor=False,
        sliding_window_non_causal=True,
    ),
    "dflash2": layout(
        "dflash2",
        {**QWEN3, **BLOCK_WINDOWS},
        **BLOCK,
        aux_hidden_state_layer_ids=[2, 4],
        conv_group_size=8,
        conv_kernel_size=3,
        draft_vocab_size=SIZE,
        selector_rank=16,
        selector_top_k=6,
    ),
}


class Drawn:
    """Draws tensors; a name draws the same whatever was drawn before."""

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)
        self.tensors: Tensors = {}

    def matrix(self, name: str, rows: int, columns: int, gain: float = 1.0) -> None:
        drawn = torch.randn(rows, columns, generator=self._generator)
        self.tensors[f"{name}.weight"] = gain * drawn / columns**0.5

    def norm(self, name: str, width: int = WIDTH) -> None:
        self.tensors[f"{name}.weight"] = 1 + 0.3 * torch.randn(width, generator=self._generator)

    def bias(self, name: str, width: int) -> None:
        self.tensors[f"{name}.bias"] = 0.3 * torch.randn(width, generator=self._generator)

    def table(self, name: str, size: float, *shape: int) -> None:
        self.tensors[name] = size * torch.randn(*shape, generator=self._generator)

    def vocabulary(self, proposed: int) -> None:
        """Which tokens are proposed, where these are not all."""
        if proposed == SIZE:
            return
        chosen = torch.randperm(SIZE, generator=self._generator)[:proposed].sort().values
        self.tensors["d2t"] = chosen - torch.arange(proposed)
        self.tensors["t2d"] = torch.zeros(SIZE, dtype=torch.bool).index_fill(0, chosen, True)

    def layer(self, at: str, config: dict[str, Any], reads: int = WIDTH) -> None:
        """A layer of a Llama or Qwen3, whose attention reads so many numbers."""
        attention = f"{at}.self_attn"
        for part, heads in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS)):
            gain = 2.0 if part == "q" else 1.0
            self.matrix(f"{attention}.{part}_proj", heads * HEAD_SIZE, reads, gain)
            if config["attention_bias"]:
                self.bias(f"{attention}.{part}_proj", heads * HEAD_SIZE)
        self.matrix(f"{attention}.o_proj", WIDTH, HEADS * HEAD_SIZE, 2.0)
        if config["attention_bias"]:
            self.bias(f"{attention}.o_proj", WIDTH)
        if config["model_type"] == "qwen3":
            self.norm(f"{attention}.q_norm", HEAD_SIZE)
            self.norm(f"{attention}.k_norm", HEAD_SIZE)
        for part, rows, columns in (
            *(("gate", INNER, WIDTH), ("up", INNER, WIDTH)),
            ("down", WIDTH, INNER),
        ):
            self.matrix(f"{at}.mlp.{part}_proj", rows, columns)
            if config.get("mlp_bias"):
                self.bias(f"{at}.mlp.{part}_proj", rows)
        self.norm(f"{at}.input_layernorm")
        self.norm(f"{at}.post_attention_layernorm")


def eagle3_tensors(config: dict[str, Any]) -> Tensors:
    drawn, layers = Drawn(5), config["transformer_layer_config"]
    read = config.get("eagle_aux_hidden_state_layer_ids") or [0] * 3
    drawn.vocabulary(config["draft_vocab_size"])
    drawn.matrix("fc", WIDTH, len(read) * WIDTH, 2.0)
    drawn.layer("layers.0", layers, 2 * WIDTH)
    drawn.norm("layers.0.hidden_norm")
    for index in range(1, layers["num_hidden_layers"]):
        drawn.layer(f"layers.{index}", layers)
    if config.get("norm_before_fc"):
        drawn.norm("input_norm", len(read) * WIDTH)
    if config.get("fc_norm"):
        for index in range(len(read)):
            drawn.norm(f"fc_norm.{index}")
    drawn.norm("norm")
    drawn.matrix("lm_head", config["draft_vocab_size"], WIDTH, 2.0)
    drawn.matrix("embed_tokens", SIZE, WIDTH, WIDTH**0.5)
    return drawn.tensors


def block_tensors(config: dict[str, Any]) -> Tensors:
    """Of a draft that fills masks, without the tables of its target."""
    drawn, layers = Drawn(6), config["transformer_layer_config"]
    kind, proposed = config["speculators_model_type"], config["draft_vocab_size"]
    drawn.vocabulary(proposed)
    count = len(read_layers(config, "aux_hidden_state_layer_ids"))
    drawn.matrix("fc", WIDTH, count * WIDTH, 2.0)
    drawn.norm("hidden_norm")
    for index in range(layers["num_hidden_layers"]):
        drawn.layer(f"layers.{index}", layers)
        if kind == "dflash2":
            taps, groups = config["conv_kernel_size"], WIDTH // config["conv_group_size"]
            for name in (f"layers.{index}.attention_conv", f"layers.{index}.mlp_conv"):
                drawn.matrix(f"{name}.kernel_projection", 2 * taps * groups, WIDTH, 0.5)
                drawn.table(f"{name}.base_kernel", 0.5, 2, taps, WIDTH)
    drawn.norm("norm")
    if proposed < SIZE:
        drawn.matrix("lm_head", proposed, WIDTH, 2.0)
    if kind == "dspark":
        rank = config["markov_rank"]
        drawn.matrix("markov_head.markov_w1", SIZE, rank, 2.0)
        drawn.matrix("markov_head.markov_w2", proposed, rank, 2.0)
        if config.get("markov_head_type") == "gated":
            drawn.matrix("markov_head.gate_proj", rank, WIDTH + rank)
            drawn.bias("markov_head.gate_proj", rank)
        reads = WIDTH + rank * config.get("confidence_head_with_markov", True)
        drawn.matrix("confidence_head.proj", 1, reads)
        drawn.bias("confidence_head.proj", 1)
    if kind == "dflash2":
        rank = config["selector_rank"]
        for side in ("predecessor", "successor"):
            drawn.table(f"candidate_selector.{side}_codebook", 1.0, SIZE, rank)
        drawn.matrix("candidate_selector.hidden_projection", rank, WIDTH)
    return drawn.tensors


def read_layers(config: dict[str, Any], key: str) -> list[int]:
    """The layers of the target that a draft reads, counted from 1."""
    return config.get(key) or [2, LAYERS // 2, LAYERS - 3]


def write_draft(
    folder: Path,
    config: dict[str, Any],
    tensors: Callable[[dict[str, Any]], Tensors] | Tensors,
    **changes: Any,
) -> Path:
    """A draft in the package's layout; `changes` changes keys of its config, not of its tensors."""
    folder.mkdir()
    drawn = tensors(config) if callable(tensors) else tensors
    save_file(drawn, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({**config, **changes}))
    return folder
