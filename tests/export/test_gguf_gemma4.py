"""Claim: what only a GGUF file with a Gemma 4 has is read, or refused by name: its tokenizer with
merges, the divisors of its positions, heads layer by layer.

Weights and configs are compared in test_gguf_families.py.
"""

from __future__ import annotations

import gguf
import numpy as np
import pytest

from edgespec.errors import EdgespecError
from edgespec_export.checkpoint.gguf.gguf_config import gguf_config
from edgespec_export.checkpoint.gguf.gguf_header import read_gguf_header
from edgespec_export.checkpoint.gguf.gguf_sentencepiece import merges_of
from edgespec_export.checkpoint.gguf.gguf_tokenizer import gguf_tokenizer
from tiny_checkpoints import add_value

NORMAL, CONTROL, BYTE = 1, 3, 6
PIECES = ["he", "ll", "hell", "hello", "▁w", "▁hello", *"abcdefghijklmnopqrstuvwxyz", "▁"]
TOKENS = {
    **{"<pad>": CONTROL, "<eos>": CONTROL, "<bos>": CONTROL},
    **{f"<0x{byte:02X}>": BYTE for byte in range(256)},
    **dict.fromkeys(PIECES, NORMAL),
}
SCORES = [-float(index) for index in range(len(TOKENS))]
METADATA = {
    "gemma4.context_length": 128,
    "gemma4.embedding_length": 64,
    "gemma4.block_count": 3,
    "gemma4.feed_forward_length": 96,
    "gemma4.attention.head_count": 2,
    "gemma4.attention.head_count_kv": [2, 2, 1],
    "gemma4.attention.key_length": 32,
    "gemma4.attention.key_length_swa": 16,
    "gemma4.attention.layer_norm_rms_epsilon": 1e-6,
    "gemma4.attention.sliding_window": 7,
    "gemma4.attention.sliding_window_pattern": [True, True, False],
    "gemma4.final_logit_softcapping": 30.0,
    "tokenizer.ggml.tokens": list(TOKENS),
    "tokenizer.ggml.token_type": list(TOKENS.values()),
    "tokenizer.ggml.bos_token_id": 2,
    "tokenizer.ggml.add_space_prefix": False,
}
NEVER = 1e30


def header(path, divisors=None, **changes):
    writer = gguf.GGUFWriter(path, "gemma4")
    for key, value in {**METADATA, **changes}.items():
        if value is not None:
            add_value(writer, key, value)
    writer.add_tensor("token_embd.weight", np.zeros((len(TOKENS), 64), np.float32))
    if divisors is not None:
        writer.add_tensor("rope_freqs.weight", np.array(divisors, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return read_gguf_header(path)


def test_merges_join_as_scores_do(tmp_path):
    ids = {token: index for index, token in enumerate(TOKENS)}
    pairs = merges_of(ids, {piece: SCORES[ids[piece]] for piece in PIECES})
    model = "tokenizer.ggml.model"
    merges = {model: "gemma4", "tokenizer.ggml.merges": [" ".join(pair) for pair in pairs]}
    scores = {model: "llama", "tokenizer.ggml.scores": SCORES}
    one, other = (
        gguf_tokenizer(header(tmp_path / f"{kind[model]}.gguf", **kind))
        for kind in (merges, scores)
    )
    for text in ("hello world", "  hell held", "ééé"):
        assert one.encode(text).ids == other.encode(text).ids
    assert one.encode("hello").tokens == ["<bos>", "hello"]
    assert one.decode(one.encode("hello é").ids) == "hello é"


def test_a_quarter_of_the_pairs_turns(tmp_path):
    config = gguf_config(header(tmp_path / "a.gguf", [1.0] * 4 + [NEVER] * 12))
    assert config["rope_parameters"]["full_attention"]["partial_rotary_factor"] == 0.25
    assert config["per_layer_config"]["2"] == {"head_dim": 32, "num_key_value_heads": 1}
    assert config["final_logit_softcapping"] == 30.0


@pytest.mark.parametrize(
    ("divisors", "changes", "named"),
    [
        ([1.0] * 4 + [8.0] * 12, {}, "other divisors than 1"),
        ([1.0] * 15, {}, "other divisors than 1"),
        (None, {"gemma4.attention.head_count_kv": [2, 2]}, "for 3 layers"),
        (None, {"gemma4.rope.dimension_count": 8}, "gemma4.rope.dimension_count is 8"),
        (None, {"gemma4.expert_count": 4}, "mixtures of experts"),
    ],
)
def test_what_no_gemma_4_has_is_refused_by_name(divisors, changes, named, tmp_path):
    with pytest.raises(EdgespecError, match=named) as error:
        gguf_config(header(tmp_path / "a.gguf", divisors, **changes))
    assert "\n" not in str(error.value)
