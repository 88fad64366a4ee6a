"""Claim: GGUF files of Gemma 1 and 2, OLMo 2 and 3 and EXAONE 4 are the models they were made of.

llama.cpp's converter adds 1 to a Gemma's norms. It has one architecture for OLMo 2 and 3, which a
window tells apart, and gives windows to EXAONE's largest model only, which has 64 layers.
"""

from __future__ import annotations

import gguf
import numpy as np
import pytest
from safetensors.numpy import load_file
from test_gguf_gemma3 import gguf_name

from checkpoints import byte_tokenizer
from depth import one_in
from edgespec.artifact.manifest import read_manifest
from edgespec.errors import EdgespecError
from edgespec.pair.opening.runtime import open_model
from edgespec_export.checkpoint.gguf.architectures import gguf_norms_after
from edgespec_export.checkpoint.gguf.gguf_file import open_gguf
from edgespec_export.export_pair import export_pair
from norms_checkpoints import MODELS, SIZES, WINDOW, write_model
from tiny_checkpoints import add_value

FFN_NORM_OF_GEMMA = ("post_attention_norm", "ffn_norm")  # it has none after its blocks
ARCHITECTURES = {
    "Olmo2": "olmo2",
    "Olmo3": "olmo2",
    "Exaone4": "exaone4",
    "Gemma": "gemma",
    "Gemma2": "gemma2",
}
KEYS = {
    "Olmo2": {"rope.freq_base": 10000.0},
    "Olmo3": {
        "rope.freq_base": 500000.0,
        "attention.sliding_window": WINDOW,
        "rope.freq_base_swa": 500000.0,
        "attention.sliding_window_pattern": [True, True, True, False],
    },
    "Exaone4": {"rope.freq_base": 10000.0, "attention.sliding_window": WINDOW},
    "Gemma": {},
    "Gemma2": {
        "attention.sliding_window": WINDOW,
        "attn_logit_softcapping": MODELS["Gemma2"]["attn_logit_softcapping"],
        "final_logit_softcapping": MODELS["Gemma2"]["final_logit_softcapping"],
    },
}
EPSILON = {"Gemma": 1e-6, "Gemma2": 1e-6}  # the others' classes have 1e-5
BYTES = byte_tokenizer(SIZES["vocab_size"])


def write_gguf(path, source, name, **changes):
    """The checkpoint as llama.cpp's converter writes it; None in `changes` drops a key."""
    arch = ARCHITECTURES[name]
    writer = gguf.GGUFWriter(path, arch)
    keys = {
        "context_length": SIZES["max_position_embeddings"],
        "embedding_length": SIZES["hidden_size"],
        "block_count": SIZES["num_hidden_layers"],
        "feed_forward_length": SIZES["intermediate_size"],
        "attention.head_count": SIZES["num_attention_heads"],
        "attention.head_count_kv": SIZES["num_key_value_heads"],
        "attention.key_length": 16,
        "attention.value_length": 16,
        "attention.layer_norm_rms_epsilon": EPSILON.get(name, 1e-5),
        **KEYS[name],
        **changes,
    }
    for key, value in keys.items():
        if value is not None:
            add_value(writer, f"{arch}.{key}", value)
    add_value(writer, "tokenizer.ggml.tokens", [BYTES.id_to_token(i) for i in range(272)])
    add_value(writer, "tokenizer.ggml.token_type", [1] * 272)
    add_value(writer, "tokenizer.ggml.eos_token_id", 1)
    for tensor_name, tensor in load_file(source / "model.safetensors").items():
        theirs = gguf_name(tensor_name).replace("lm_head", "output")
        if name == "Gemma":
            theirs = theirs.replace(*FFN_NORM_OF_GEMMA)
        is_norm = theirs.endswith("norm.weight") and name.startswith("Gemma")
        writer.add_tensor(theirs, tensor + np.float32(1) if is_norm else tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    BYTES.save(str(path.parent / "tokenizer.json"))
    return path


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Writes the two forms of a model."""
    monkeypatch.setattr(gguf_norms_after, "_WINDOWED_LAYERS_OF_EXAONE", SIZES["num_hidden_layers"])

    def write(name, **changes):
        scale = {"query_pre_attn_scalar": 16} if name == "Gemma2" else {}  # the head's size
        source = write_model(tmp_path / "checkpoint", name, **scale)
        (tmp_path / "gguf").mkdir()
        return source, write_gguf(tmp_path / "gguf" / "tiny.gguf", source, name, **changes)

    return write


@one_in(2)
@pytest.mark.parametrize("name", MODELS)
def test_logits_are_those_of_the_checkpoint(name, tmp_path, written):
    logits = []
    for origin in written(name):
        out = tmp_path / f"{origin.name}-pair"
        export_pair(str(origin), None, out, measure=False, threads=1)
        model = open_model(out, read_manifest(out).target, "fp32", min_rows=2)
        model.prefill([5, 6, 7])
        logits.append(model.score(list(range(8, 40))).copy())
    np.testing.assert_allclose(*logits, rtol=0, atol=2e-5)
    assert logits[0].std() > 0.5


@pytest.mark.parametrize(
    ("name", "keys", "config"),
    [
        ("Gemma2", {"attn_logit_softcapping": None}, {"attn_logit_softcapping": 50.0}),
        ("Gemma2", {"final_logit_softcapping": None}, {"final_logit_softcapping": 30.0}),
        ("Gemma2", {"attention.sliding_window": None}, {"sliding_window": 4096}),
        ("Gemma2", {}, {"query_pre_attn_scalar": 16}),
        ("Olmo3", {"attention.sliding_window": None}, {"model_type": "olmo2"}),
        (
            "Olmo3",
            {"attention.sliding_window_pattern": None},
            {"layer_types": [*3 * ["sliding_attention"], "full_attention"]},
        ),
    ],
)
def test_what_a_file_leaves_out_is_what_llama_cpp_takes(name, keys, config, written):
    _, path = written(name, **keys)
    found = open_gguf(path).config
    assert {key: found[key] for key in config} == config


def test_a_small_exaone_has_no_windows(written, monkeypatch):
    _, path = written("Exaone4")
    monkeypatch.undo()
    config = open_gguf(path).config
    assert (config["sliding_window"], config["layer_types"]) == (None, 4 * ["full_attention"])


@pytest.mark.parametrize(
    ("name", "keys", "words"),
    [
        ("Olmo3", {"rope.scaling.type": "longrope"}, "rope scaling 'longrope'"),
        ("Gemma", {"attention.sliding_window": 7}, "gemma.attention.sliding_window' = 7"),
        ("Gemma2", {"attention.sliding_window_pattern": 0}, "sliding_window_pattern is 0"),
        ("Olmo2", {"attention.clamp_kqv": 8.0}, "clamp_kqv' = 8.0 is not known"),
    ],
)
def test_a_key_that_would_be_another_model_is_refused_by_name(name, keys, words, written):
    _, path = written(name, **keys)
    with pytest.raises(EdgespecError, match=words):
        open_gguf(path)
