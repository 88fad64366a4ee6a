"""Claim: the head for several tokens in a Qwen3.5's checkpoint drafts as its publisher describes.

Transformers leaves it out. The reference is written here as vLLM computes it: row i of a text takes
the token i + 1 and the target's state of token i after its last norm, each with a norm of its own,
side by side; then a layer with gated attention, and a norm whose result is the state of the next
drafted row, and what the target's head reads.
"""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn.functional import scaled_dot_product_attention, sigmoid, silu

import edgespec
from depth import deep
from edgespec.core.distribution_options import Sampling
from edgespec.core.draft import proposed
from edgespec.core.randomness import Seeded
from edgespec.core.requests import computed
from edgespec.core.sampling import SamplingProcessor
from edgespec.device.device import HERE
from edgespec.device.kernels import kernels_for
from edgespec.drafters.model_drafter import ModelDrafter
from edgespec.errors import EdgespecError
from edgespec_export.checkpoint.sources import Source
from edgespec_export.export_pair import export_pair
from edgespec_export.families import family_of
from edgespec_export.families.drafts.eagle3.head_checkpoint import open_checkpoints
from edgespec_export.families.drafts.qwen35 import mtp_head
from qwen35_checkpoints import SIZES, add_head, write_qwen35

THETA, ROTATED = 10000.0, 0.25
SIZE = SIZES["head_dim"]
PROMPT = [int(token) for token in np.random.default_rng(2).integers(3, 272, size=12)]
DRAFTED = [9, 250, 14]
QUICK = {"threads": 1, "measure": False}


class Reference:
    """The head in float64, after a target in float32."""

    def __init__(self, target, head) -> None:
        self.target = target
        self.w = {name.removeprefix("mtp."): x.double() for name, x in head.items()}

    @torch.no_grad()
    def drafted(self, ids: list[int], drafted: list[int]) -> np.ndarray:
        """Logits [len(drafted) + 1, tokens] after a text whose last token the target has not
        scored, and after each drafted token."""
        states = self.target.model(torch.tensor([ids[:-1]])).last_hidden_state[0].double()
        table = self.target.lm_head.weight.double()
        tokens, logits = ids[1:], []
        for token in [*drafted, None]:
            last = self.layer(tokens, states)[-1:]
            logits.append(last @ table.T)
            tokens, states = [*tokens, token], torch.cat([states, last])
        return torch.cat(logits).numpy()

    def layer(self, tokens: list[int], states: torch.Tensor) -> torch.Tensor:
        embedded = self.target.get_input_embeddings().weight[torch.tensor(tokens)].double()
        both = (
            self.norm(embedded, "pre_fc_norm_embedding"),
            self.norm(states, "pre_fc_norm_hidden"),
        )
        x = torch.cat(both, dim=-1) @ self.w["fc.weight"].T
        x = x + self.attended(self.norm(x, "layers.0.input_layernorm"))
        read = self.norm(x, "layers.0.post_attention_layernorm")
        gate, up = (read @ self.w[f"layers.0.mlp.{part}_proj.weight"].T for part in ("gate", "up"))
        x = x + (silu(gate) * up) @ self.w["layers.0.mlp.down_proj.weight"].T
        return self.norm(x, "norm")

    def attended(self, x: torch.Tensor) -> torch.Tensor:
        at = "layers.0.self_attn"
        q, k, v = (x @ self.w[f"{at}.{part}_proj.weight"].T for part in "qkv")
        q, gate = q.reshape(len(x), -1, 2, SIZE).unbind(2)
        k, v = (rows.reshape(len(x), -1, SIZE) for rows in (k, v))
        q, k = self.norm(q, f"{at}.q_norm"), self.norm(k, f"{at}.k_norm")
        k, v = (rows.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for rows in (k, v))
        q, k, v = (rows.transpose(0, 1) for rows in (self.rotated(q), self.rotated(k), v))
        y = scaled_dot_product_attention(q, k, v, is_causal=True).transpose(0, 1)
        return (y * sigmoid(gate)).flatten(1) @ self.w[f"{at}.o_proj.weight"].T

    def norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        scale = (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()
        return x * scale * (1 + self.w[f"{name}.weight"])

    def rotated(self, x: torch.Tensor) -> torch.Tensor:
        """[rows, heads, size]: the first numbers of each head in two halves."""
        turned = int(SIZE * ROTATED)
        pairs = torch.arange(0, turned, 2, dtype=torch.float64)
        angles = torch.arange(len(x))[:, None, None] * THETA ** (-pairs / turned)
        first, second, rest = x.split([turned // 2, turned // 2, SIZE - turned], dim=-1)
        cos, sin = angles.cos(), angles.sin()
        return torch.cat([first * cos - second * sin, second * cos + first * sin, rest], dim=-1)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("qwen35") / "model"
    rope = {"rope_type": "default", "rope_theta": THETA, "partial_rotary_factor": ROTATED}
    target = write_qwen35(folder, rope_parameters=rope, mtp_num_hidden_layers=1)
    return folder, Reference(target, add_head(folder))


@pytest.fixture(scope="module")
def folder(checkpoint, tmp_path_factory):
    out = tmp_path_factory.mktemp("pair") / "pair"
    source, formats = str(checkpoint[0]), ("fp32",)
    export_pair(source, source, out, target_formats=formats, draft_formats=formats, **QUICK)
    return out


@pytest.fixture(scope="module")
def int8_folder(checkpoint, tmp_path_factory):
    out = tmp_path_factory.mktemp("pair") / "pair"
    source, formats = str(checkpoint[0]), ("int8",)
    export_pair(source, source, out, target_formats=formats, draft_formats=formats, **QUICK)
    return out


def drafted_logits(pair, prompt, drafted):
    """The head's logits after a prompt, and after each drafted token."""
    pair.target.prefill(prompt)
    pair.draft.prefill(prompt)
    return np.concatenate([pair.draft.score([token]).copy() for token in [prompt[-1], *drafted]])


def test_logits_of_drafted_positions_are_those_of_the_reference(folder, checkpoint):
    pair = edgespec.load(folder, threads=1)
    expected = checkpoint[1].drafted(PROMPT, DRAFTED)
    assert expected.std() > 0.5
    found = drafted_logits(pair, PROMPT, DRAFTED)
    np.testing.assert_allclose(found, expected, atol=1e-4, rtol=1e-5)


def test_accepted_tokens_are_read_with_the_targets_states(folder, checkpoint):
    """The second round's rows start from states where the first round's had the head's own."""
    pair = edgespec.load(folder, threads=1)
    drafter = ModelDrafter(pair.draft, SamplingProcessor(Sampling(1.0)), pair.vocabulary)
    text = [pair.target.prefill(PROMPT)]
    drafter.begin(PROMPT)
    for seed in range(3):
        proposal = computed(proposed(drafter, text, len(DRAFTED), Seeded(seed)))
        rows = checkpoint[1].drafted([*PROMPT, *text[1:]], proposal.tokens)
        for q, row in zip(proposal.q, rows, strict=False):
            expected = SamplingProcessor(Sampling(1.0))(row.astype(np.float32)).probabilities
            np.testing.assert_allclose(q.probabilities, expected, atol=1e-4)
        # As if one token had been accepted and the next one replaced.
        pair.target.score([text[-1], proposal.tokens[0]])
        text += [proposal.tokens[0], 90 + seed]


def _sees_the_first(g, positions, heads):
    return g.op.Mul(first_key_bias(g, positions, heads), g.constant(0, np.float32))


def _hidden_first(matrix, part):
    return half(matrix, {"token": "state", "state": "token"}[part])


first_key_bias, half = mtp_head.first_key_bias, mtp_head.half


@pytest.mark.parametrize(
    ("name", "mutant"),
    [
        pytest.param("first_key_bias", _sees_the_first, id="the first row is seen"),
        pytest.param("half", _hidden_first, id="the state comes first", marks=deep),
    ],
)
def test_another_head_is_found(name, mutant, checkpoint, tmp_path, monkeypatch):
    monkeypatch.setattr(mtp_head, name, mutant)
    source = str(checkpoint[0])
    export_pair(source, source, tmp_path / "pair", measure=False, threads=1)
    found = drafted_logits(edgespec.load(tmp_path / "pair", threads=1), PROMPT, DRAFTED)
    assert np.abs(found - checkpoint[1].drafted(PROMPT, DRAFTED)).max() > 0.01


@pytest.mark.parametrize("variant", ["folder", pytest.param("int8_folder", marks=deep)])
def test_a_text_with_the_head_is_the_targets_own(variant, request):
    pair = edgespec.load(request.getfixturevalue(variant), threads=1)
    accepted = 0
    for seed in range(3):  # so hot that a random head agrees now and then
        options = {"max_new_tokens": 24, "temperature": 3.0, "seed": seed, "ignore_eos": True}
        plain = pair.generate(PROMPT, draft=False, **options)
        drafted = pair.generate(PROMPT, draft="model", gamma=3, **options)
        assert drafted.token_ids == plain.token_ids
        accepted += drafted.stats.accepted
    assert accepted > 0


@deep
def test_sequences_that_share_calls_are_those_made_alone(int8_folder):
    if kernels_for(HERE) is None:
        pytest.skip("sequences share calls only with kernels")
    pair = edgespec.load(int8_folder, threads=1, capacity=64)
    assert pair.shares_calls
    prompts = [[40 + number, *PROMPT[: 3 + number]] for number in range(4)]
    given = {"max_new_tokens": 12, "draft": "model", "gamma": 3, "temperature": 3.0}
    given["ignore_eos"] = True
    alone = [pair.generate(prompt, seed=5 + i, **given) for i, prompt in enumerate(prompts)]
    together = list(pair.generate_many(prompts, seed=5, **given))
    assert sum(text.stats.accepted for text in alone) > 0
    assert [text.token_ids for text in together] == [text.token_ids for text in alone]
    assert [text.stats.accepted for text in together] == [text.stats.accepted for text in alone]


@deep
def test_a_checkpoint_without_a_head_is_its_own_draft_as_any_other(tmp_path):
    write_qwen35(tmp_path / "model")
    source = str(tmp_path / "model")
    manifest = export_pair(source, source, tmp_path / "pair", measure=False)
    assert manifest.draft is not None
    assert manifest.draft.family == "qwen3_5"


def test_a_model_with_images_has_the_same_head(checkpoint, tmp_path):
    """The published layout: the text model's tensors have a prefix, those of the head have none."""
    folder, _ = checkpoint
    tensors = load_file(folder / "model.safetensors")
    renamed = {
        name if name.startswith(("mtp.", "lm_head")) else f"model.language_{name}": tensor
        for name, tensor in tensors.items()
    }
    save_file({**renamed, "model.visual.x": torch.ones(1)}, tmp_path / "model.safetensors")
    text = json.loads((folder / "config.json").read_text())
    config = {"model_type": "qwen3_5", "text_config": text, "eos_token_id": 1}
    (tmp_path / "config.json").write_text(json.dumps(config))
    shutil.copy(folder / "tokenizer.json", tmp_path)
    heads = []
    for path in (folder, tmp_path):
        source = Source(path, "model")
        _, head = open_checkpoints(source, source)
        heads.append(head.weights)
    assert heads[0].names() == heads[1].names()
    for name in heads[0].names():
        np.testing.assert_array_equal(heads[0].read(name), heads[1].read(name))


@pytest.mark.parametrize(
    ("key", "value"), [("mtp_num_hidden_layers", 2), ("mtp_use_dedicated_embeddings", True)]
)
def test_other_heads_are_refused_by_name(key, value):
    with pytest.raises(EdgespecError, match=key) as error:
        family_of({"model_type": "qwen3_5_mtp", **SIZES, key: value}, "model")
    assert "\n" not in str(error.value)
