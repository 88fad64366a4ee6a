"""Claim: a published EAGLE-3 head computes in a pair what its architecture says.

The reference is written here from the architecture (Li et al. 2025, arXiv 2503.01840): row i of a
text takes the token i + 1 and the features of the token i, and there is no row without features.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn.functional import linear, scaled_dot_product_attention, silu
from transformers import AutoModelForCausalLM

import edgespec
from checkpoints import byte_tokenizer, write_llama, write_t5
from eagle_checkpoints import PROMPT, SIZE, write_target
from edgespec.core.draft import proposed
from edgespec.core.asks import computed
from edgespec.core.kernels import kernels_for
from edgespec.core.device import HERE
from edgespec.core.randomness import Seeded
from edgespec.core.sampling import Sampling
from edgespec.drafters.model_drafter import ModelDrafter
from edgespec.errors import EdgespecError
from edgespec_export.export_pair import export_pair

LAYERS, WIDTH, HEADS, KV_HEADS, HEAD_SIZE, INNER = 8, 64, 4, 2, 16, 96
READ = (2, 4, 5)  # numbers of layers that ran, of a target with 8
PROPOSED = 100
THETA, EPSILON = 5000.0, 1e-5
DEPTH = 3

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


@pytest.fixture(scope="module")
def target(tmp_path_factory) -> Path:
    return write_deep_target(tmp_path_factory.mktemp("target") / "llama")


@pytest.fixture(scope="module")
def head(tmp_path_factory) -> Path:
    return write_head(tmp_path_factory.mktemp("head") / "head")


@pytest.fixture(scope="module")
def pair_folder(target, head, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("pair") / "pair"
    formats = ("fp32", "int8")
    export_pair(str(target), str(head), folder, target_formats=formats, draft_formats=formats)
    return folder


# --- the reference --------------------------------------------------------------------------------


class Reference:
    """The head in float64."""

    def __init__(self, target: Path, head: Path, read: tuple[int, ...] = READ) -> None:
        self.target = AutoModelForCausalLM.from_pretrained(target, dtype=torch.float32).eval()
        self.embedding = self.target.get_input_embeddings().weight.detach().double()
        self.w = {name: x.double() for name, x in load_file(head / "model.safetensors").items()}
        self.read = read

    @torch.no_grad()
    def features(self, ids: list[int]) -> torch.Tensor:
        """[len(ids), 3 · WIDTH]: outputs of the layers, side by side."""
        states = self.target(torch.tensor([ids]), output_hidden_states=True).hidden_states
        return torch.cat([states[count][0] for count in self.read], dim=-1).double()

    def drafted(self, ids: list[int], drafted: list[int]) -> np.ndarray:
        """Logits [len(drafted) + 1, PROPOSED] after a text whose last token the target has not
        scored, and after each drafted token."""
        states = self.features(ids[:-1]) @ self.w["fc.weight"].T
        tokens = ids[1:]
        logits = []
        for token in [*drafted, None]:
            hidden = self.layer(tokens, states)
            logits.append(self.norm(hidden[-1:], "norm") @ self.w["lm_head.weight"].T)
            tokens = [*tokens, token]
            states = torch.cat([states, hidden[-1:]])
        return torch.cat(logits).numpy()

    def layer(self, tokens: list[int], states: torch.Tensor) -> torch.Tensor:
        at = "midlayer"
        embedded = self.embedding[torch.tensor(tokens)]
        both = [self.norm(embedded, f"{at}.input_layernorm"), self.norm(states, f"{at}.hidden_norm")]
        read = torch.cat(both, dim=-1)
        q, k, v = (
            self.heads(linear(read, self.w[f"{at}.self_attn.{part}_proj.weight"])) for part in "qkv"
        )
        k, v = (x.repeat_interleave(HEADS // KV_HEADS, dim=0) for x in (k, v))
        y = scaled_dot_product_attention(self.rotated(q), self.rotated(k), v, is_causal=True)
        y = y.transpose(0, 1).reshape(len(tokens), -1)
        x = states + linear(y, self.w[f"{at}.self_attn.o_proj.weight"])
        inner = self.norm(x, f"{at}.post_attention_layernorm")
        gate, up = (linear(inner, self.w[f"{at}.mlp.{part}_proj.weight"]) for part in ("gate", "up"))
        return x + linear(silu(gate) * up, self.w[f"{at}.mlp.down_proj.weight"])

    def norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        scale = (x.square().mean(-1, keepdim=True) + EPSILON).rsqrt()
        return x * scale * self.w[f"{name}.weight"]

    def heads(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(len(x), -1, HEAD_SIZE).transpose(0, 1)

    def rotated(self, x: torch.Tensor) -> torch.Tensor:
        pairs = torch.arange(0, HEAD_SIZE, 2, dtype=torch.float64)
        angles = torch.arange(x.shape[1])[:, None] * THETA ** (-pairs / HEAD_SIZE)
        first, second = x.chunk(2, dim=-1)
        cos, sin = angles.cos(), angles.sin()
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


@pytest.fixture(scope="module")
def reference(target, head) -> Reference:
    return Reference(target, head)


def drafted_logits(pair: edgespec.Pair, prompt: list[int], drafted: list[int]) -> np.ndarray:
    """The head's logits after a prompt, and after each drafted token."""
    pair.target.prefill(prompt)
    pair.draft.prefill(prompt)
    tokens = [prompt[-1], *drafted]
    return np.concatenate([pair.draft.score([token]).copy() for token in tokens])


# --- numbers --------------------------------------------------------------------------------------


def test_logits_of_drafted_positions_are_those_of_the_reference(pair_folder, reference):
    pair = edgespec.load(pair_folder, threads=1)
    prompt, drafted = [*PROMPT, 200, 7, 31], [9, 250, 14]
    expected = reference.drafted(prompt, drafted)
    assert expected.std() > 1
    np.testing.assert_allclose(
        drafted_logits(pair, prompt, drafted), expected, atol=1e-5, rtol=1e-5
    )
