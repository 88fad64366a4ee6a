"""Claim: a Qwen3.5's GGUF file is the checkpoint that llama.cpp's converter made it of.

The converter's changes are written here from its source (conversion/qwen.py): value heads are
tiled, norms are 1 + w but for those of delta rules, and what a head forgets is -exp(A_log). No file
of a real Qwen3.5 was read.
"""

from __future__ import annotations

from dataclasses import replace

import gguf
import numpy as np
import pytest
from safetensors.numpy import load_file

from checkpoints import byte_tokenizer
from depth import deep
from edgespec.artifact.manifest import read_manifest
from edgespec.errors import EdgespecError
from edgespec.pair.opening.runtime import open_model
from edgespec_export.checkpoint.checkpoint import open_checkpoint
from edgespec_export.checkpoint.gguf.architectures import gguf_qwen35
from edgespec_export.checkpoint.gguf.gguf_config import gguf_config
from edgespec_export.checkpoint.gguf.gguf_header import read_gguf_header
from edgespec_export.checkpoint.gguf.gguf_pretokenizers import PRE_TOKENIZERS
from edgespec_export.checkpoint.sources import Source
from edgespec_export.export_pair import export_pair
from edgespec_export.families import family_of
from qwen35_checkpoints import SIZES, add_head, write_qwen35
from tiny_checkpoints import add_value

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

LAYERS = SIZES["num_hidden_layers"]
CHANGES = {  # the kinds of layers by their interval; sizes that differ
    "layer_types": ["linear_attention", "full_attention", "linear_attention"],
    "full_attention_interval": 2,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 24,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 1e6,
        "partial_rotary_factor": 0.25,
    },
    "mtp_num_hidden_layers": 1,
}
KEYS, VALUES, SIZE = SIZES["linear_num_key_heads"], SIZES["linear_num_value_heads"], 24
TEXT = [int(token) for token in np.random.default_rng(5).integers(3, 272, size=40)]
METADATA = {
    "block_count": LAYERS + 1,
    "nextn_predict_layers": 1,
    "context_length": SIZES["max_position_embeddings"],
    "embedding_length": SIZES["hidden_size"],
    "feed_forward_length": SIZES["intermediate_size"],
    "attention.head_count": SIZES["num_attention_heads"],
    "attention.head_count_kv": SIZES["num_key_value_heads"],
    "attention.key_length": SIZES["head_dim"],
    "attention.value_length": SIZES["head_dim"],
    "attention.layer_norm_rms_epsilon": 1e-6,
    "rope.freq_base": 1e6,
    "rope.dimension_count": 4,
    "rope.dimension_sections": [1, 1, 0, 0],
    "ssm.conv_kernel": 4,
    "ssm.state_size": 16,
    "ssm.group_count": KEYS,
    "ssm.time_step_rank": VALUES,
    "ssm.inner_size": VALUES * SIZE,
    "full_attention_interval": 2,
}
NAMES = {  # by Hugging Face's parts of names, the longer ones first
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "mtp.fc": f"blk.{LAYERS}.nextn.eh_proj",
    "mtp.pre_fc_norm_embedding": f"blk.{LAYERS}.nextn.enorm",
    "mtp.pre_fc_norm_hidden": f"blk.{LAYERS}.nextn.hnorm",
    "mtp.norm": f"blk.{LAYERS}.nextn.shared_head_norm",
    "mtp.layers.0": f"blk.{LAYERS}",
    "model.layers": "blk",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "post_attention_norm",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    **{f"self_attn.{part}_proj": f"attn_{part}" for part in "qkv"},
    "self_attn.o_proj": "attn_output",
    **{f"mlp.{part}_proj": f"ffn_{part}" for part in ("gate", "up", "down")},
    "linear_attn.in_proj_qkv": "attn_qkv",
    "linear_attn.in_proj_z": "attn_gate",
    "linear_attn.in_proj_a": "ssm_alpha",
    "linear_attn.in_proj_b": "ssm_beta",
    "linear_attn.A_log": "ssm_a",
    "linear_attn.dt_bias": "ssm_dt.bias",
    "linear_attn.conv1d": "ssm_conv1d",
    "linear_attn.norm": "ssm_norm",
    "linear_attn.out_proj": "ssm_out",
}


def tiled(tensor, axis, size):
    """Value heads of a key head side by side, to the first of each key head, the second, …."""
    shape = tensor.shape
    heads = tensor.reshape(*shape[:axis], KEYS, VALUES // KEYS, size, *shape[axis + 1 :])
    return np.ascontiguousarray(heads.swapaxes(axis, axis + 1)).reshape(shape)


def converted(name, tensor):
    """A tensor as the converter stores it."""
    before = 2 * KEYS * 16  # rows of queries and keys
    part = name.rpartition("linear_attn.")[2]
    if part in ("in_proj_qkv.weight", "conv1d.weight"):
        rows = tensor[:, 0] if tensor.ndim == 3 else tensor
        return np.concatenate([rows[:before], tiled(rows[before:], 0, SIZE)])
    if part == "in_proj_z.weight":
        return tiled(tensor, 0, SIZE)
    if part in ("in_proj_a.weight", "in_proj_b.weight", "dt_bias"):
        return tiled(tensor, 0, 1)
    if part == "A_log":
        return -np.exp(tiled(tensor, 0, 1))
    if part == "out_proj.weight":
        return tiled(tensor, 1, SIZE)
    if tensor.ndim == 1 and not name.endswith("linear_attn.norm.weight"):
        return tensor + np.float32(1)
    return tensor


def gguf_name(name):
    for theirs, ours in NAMES.items():
        if name == theirs or f"{theirs}." in name or name.endswith(f".{theirs}"):
            name = name.replace(theirs, ours, 1)
    return name


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("source") / "model"
    model = write_qwen35(folder, **CHANGES)
    add_head(folder)
    return folder, model


@pytest.fixture
def written(source, tmp_path):
    """Writes the checkpoint as one file; None drops a key."""
    tokenizer = byte_tokenizer(272)

    def write(**changes):
        path = tmp_path / "gguf" / "tiny.gguf"
        path.parent.mkdir(exist_ok=True)
        writer = gguf.GGUFWriter(path, "qwen35")
        for key, value in {**METADATA, **changes}.items():
            if value is not None:
                add_value(writer, f"qwen35.{key}", value)
        tokens = [tokenizer.id_to_token(i) or "" for i in range(272)]
        add_value(writer, "tokenizer.ggml.tokens", tokens)
        add_value(writer, "tokenizer.ggml.token_type", [1] * 272)
        add_value(writer, "tokenizer.ggml.eos_token_id", 1)
        for name, tensor in load_file(source[0] / "model.safetensors").items():
            writer.add_tensor(gguf_name(name), converted(name, tensor))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        tokenizer.save(str(path.parent / "tokenizer.json"))
        return path

    return write


def test_weights_and_config_are_those_of_the_checkpoint(source, written):
    expected = open_checkpoint(Source(source[0], "model"))
    found = open_checkpoint(Source(written(), "model"))
    ours, theirs = (family_of(each.config, "model") for each in (found, expected))
    assert repr(replace(ours, label="")) == repr(replace(theirs, label=""))
    assert found.weights.names() == expected.weights.names()
    for name in expected.weights.names():
        tensor = expected.weights.read(name)
        assert found.weights.shape(name) == tensor.shape
        if tensor.ndim > 1 or name.endswith(("dt_bias", "linear_attn.norm.weight")):
            np.testing.assert_array_equal(found.weights.read(name), tensor, strict=True)
        else:  # 1 + w, and exp(A_log), are rounded
            np.testing.assert_allclose(found.weights.read(name), tensor, rtol=1e-6, atol=1.2e-7)


def largest_difference(path, model, out):
    """Of logits, from transformers'."""
    export_pair(str(path), None, out, measure=False, threads=1)
    scored = open_model(out, read_manifest(out).target, "fp32", min_rows=2)
    logits = scored.score([scored.prefill(TEXT[:6]), *TEXT[6:]])
    with torch.inference_mode():
        expected = model(input_ids=torch.tensor([TEXT]), use_cache=False).logits[0, 5:].numpy()
    return np.abs(logits - expected).max()


def test_logits_are_those_of_transformers(source, written, tmp_path):
    assert largest_difference(written(), source[1], tmp_path / "pair") <= 1e-4


@deep
def test_value_heads_in_another_order_are_found(source, written, tmp_path, monkeypatch):
    monkeypatch.setattr(gguf_qwen35._Restored, "_grouped", lambda self, tensor, axis, size: tensor)
    assert largest_difference(written(), source[1], tmp_path / "pair") > 0.01


def test_words_are_those_of_the_published_tokenizer():
    from transformers.models.qwen3_5.tokenization_qwen3_5 import PRETOKENIZE_REGEX

    first, _ = PRE_TOKENIZERS["qwen35"].steps
    assert first["pattern"] == {"Regex": PRETOKENIZE_REGEX}


@deep
def test_a_file_has_its_own_draft(written, tmp_path):
    path = str(written())
    manifest = export_pair(path, path, tmp_path / "pair", measure=False, threads=1)
    assert manifest.draft is not None
    assert manifest.draft.family == "eagle"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"nextn_predict_layers": 2}, "nextn_predict_layers is 2"),
        ({"ssm.inner_size": 97}, "inner_size is 97, no multiple of 4 heads"),
        ({"ssm.group_count": None}, "lacks qwen35.ssm.group_count"),
        ({"ssm.dt_b_c_rms": True}, "ssm.dt_b_c_rms' = True is not known"),
        ({"expert_count": 4}, "mixtures of experts"),
    ],
)
def test_a_key_that_would_be_another_model_is_refused_by_name(changes, words, written):
    with pytest.raises(EdgespecError, match=words) as error:
        gguf_config(read_gguf_header(written(**changes)))
    assert "\n" not in str(error.value)
