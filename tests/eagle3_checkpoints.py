"""Random EAGLE-3 heads as they are published, and a target for them, as checkpoints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from checkpoints import byte_tokenizer, write_llama
from eagle_checkpoints import SIZE

LAYERS, WIDTH, HEADS, KV_HEADS, HEAD_SIZE, INNER = 8, 64, 4, 2, 16, 96
PROPOSED = 100
THETA, EPSILON = 5000.0, 1e-5

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "attention_bias": False,
    "bos_token_id": 1,
    "draft_vocab_size": PROPOSED,
    "eos_token_id": 1,
    "head_dim": HEAD_SIZE,
    "hidden_act": "silu",
    "hidden_size": WIDTH,
    "intermediate_size": INNER,
    "max_position_embeddings": 64,
    "max_window_layers": 48,
    "model_type": "llama",
    "num_attention_heads": HEADS,
    "num_hidden_layers": 1,
    "num_key_value_heads": KV_HEADS,
    "rms_norm_eps": EPSILON,
    "rope_scaling": None,
    "rope_theta": THETA,
    "sliding_window": None,
    "tie_word_embeddings": True,  # as in some published configs, whose lm_head is not tied
    "torch_dtype": "float32",
    "use_sliding_window": False,
    "vocab_size": SIZE,
}


def head_tensors() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)

    def matrix(rows: int, columns: int, gain: float = 1.0) -> torch.Tensor:
        return gain * torch.randn(rows, columns, generator=generator) / columns**0.5

    def norm() -> torch.Tensor:
        return 1 + 0.3 * torch.randn(WIDTH, generator=generator)

    chosen = torch.randperm(SIZE, generator=generator)[:PROPOSED].sort().values
    at = "midlayer"
    return {
        "d2t": chosen - torch.arange(PROPOSED),
        "t2d": torch.zeros(SIZE, dtype=torch.bool).index_fill(0, chosen, True),
        "fc.weight": matrix(WIDTH, 3 * WIDTH, 2.0),
        f"{at}.input_layernorm.weight": norm(),
        f"{at}.hidden_norm.weight": norm(),
        f"{at}.self_attn.q_proj.weight": matrix(HEADS * HEAD_SIZE, 2 * WIDTH, 2.0),
        f"{at}.self_attn.k_proj.weight": matrix(KV_HEADS * HEAD_SIZE, 2 * WIDTH),
        f"{at}.self_attn.v_proj.weight": matrix(KV_HEADS * HEAD_SIZE, 2 * WIDTH),
        f"{at}.self_attn.o_proj.weight": matrix(WIDTH, HEADS * HEAD_SIZE, 2.0),
        f"{at}.post_attention_layernorm.weight": norm(),
        f"{at}.mlp.gate_proj.weight": matrix(INNER, WIDTH),
        f"{at}.mlp.up_proj.weight": matrix(INNER, WIDTH),
        f"{at}.mlp.down_proj.weight": matrix(WIDTH, INNER),
        "norm.weight": norm(),
        "lm_head.weight": matrix(PROPOSED, WIDTH, 2.0),
    }


def write_head(folder: Path, tensors: dict[str, torch.Tensor] | None = None, **config: Any) -> Path:
    """A random head; `config` changes keys, and None drops one."""
    folder.mkdir()
    save_file(head_tensors() if tensors is None else tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(CONFIG | config))
    return folder


def write_deep_target(folder: Path, kind: str = "llama") -> Path:
    return write_llama(
        folder,
        model_type=kind,
        vocab_size=SIZE,
        tokenizer=byte_tokenizer(SIZE),
        layers=LAYERS,
        heads=HEADS,
        kv_heads=KV_HEADS,
        head_size=HEAD_SIZE,
        spread=1.5,
    )
