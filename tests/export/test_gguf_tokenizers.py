"""Claim: a GGUF file's tokenizer gives the ids of the model it was made of.

SentencePiece itself gives the ids for T5's and Phi-3's kinds.
"""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from tokenizers import Tokenizer

from edgespec.errors import EdgespecError
from edgespec_export.checkpoint.gguf.gguf_header import GgufHeader
from edgespec_export.checkpoint.gguf.gguf_pretokenizers import PRE_TOKENIZERS
from edgespec_export.checkpoint.gguf.gguf_tokenizer import gguf_tokenizer

sentencepiece = pytest.importorskip("sentencepiece")

SENTENCES = ["the cats and the hats", "a cat sat on the mat", "naïve café ﬁne", "hello hello"] * 5
TEXTS = ["", " ", "the cats", "  the   hats  ", "cat\nmat\t", "naïve 日本 😀 ﬁne", "hello▁cat"]
NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = range(1, 7)


def trained(**settings):
    """A small SentencePiece model."""
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES),
        model_writer=written,
        minloglevel=2,
        **settings,
    )
    return sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())


def metadata_of(model, kind, extra=(), **settings):
    """The keys that the converter writes for a SentencePiece model and tokens beside it."""
    ids = range(model.get_piece_size())
    kinds = [
        CONTROL
        if model.is_control(i)
        else UNKNOWN
        if model.is_unknown(i)
        else BYTE
        if model.is_byte(i)
        else NORMAL
        for i in ids
    ]
    keys = {
        "model": kind,
        "pre": "default",
        "tokens": [*map(model.id_to_piece, ids), *(token for token, _ in extra)],
        "scores": [*map(model.get_score, ids), *(-1000.0 for _ in extra)],
        "token_type": [*kinds, *(kind for _, kind in extra)],
        "bos_token_id": model.bos_id(),
        "eos_token_id": model.eos_id(),
        "unknown_token_id": model.unk_id(),
        **settings,
    }
    return {f"tokenizer.ggml.{key}": value for key, value in keys.items() if value is not None}


def tokenizer_of(tmp_path, keys, arch="t5"):
    return gguf_tokenizer(
        GgufHeader(tmp_path / "a.gguf", {"general.architecture": arch, **keys}, {})
    )


@pytest.fixture(scope="module")
def t5():
    ids = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
    return trained(model_type="unigram", vocab_size=60, hard_vocab_limit=False, **ids)


def charsmap(model):
    from edgespec_export.checkpoint.protobuf_wire import fields

    (normalizer,) = (
        value for number, value in fields(model.serialized_model_proto()) if number == 3
    )
    (table,) = (value for number, value in fields(normalizer) if number == 2)
    return np.frombuffer(table, np.uint8).tolist()


def unigram_keys(model, pads=128, **settings):
    extra = [(f"[PAD{index}]", UNUSED) for index in range(pads)]
    usual = {
        "add_space_prefix": True,
        "remove_extra_whitespaces": True,
        "precompiled_charsmap": charsmap(model),
    }
    return metadata_of(model, "t5", extra, **{**usual, **settings})


def test_a_unigram_tokenizer_gives_the_ids_of_sentencepiece(t5, tmp_path):
    tokenizer = tokenizer_of(tmp_path, unigram_keys(t5))
    for text in TEXTS:
        assert tokenizer.encode(text).ids == [*t5.encode(text), 1], text


@pytest.mark.parametrize(("pads", "extra"), [(128, 100), (100, 100), (12, 0), (0, 0)])
def test_the_blanks_of_a_t5_stand_where_its_unused_tokens_are(pads, extra, t5, tmp_path):
    tokenizer = tokenizer_of(tmp_path, unigram_keys(t5, pads))
    size = t5.get_piece_size()
    assert tokenizer.get_vocab_size() == size + extra
    assert tokenizer.token_to_id("<extra_id_0>") == (size + 99 if extra else None)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"add_space_prefix": False}, "add_space_prefix is switched off"),
        ({"remove_extra_whitespaces": False}, "remove_extra_whitespaces is switched off"),
        ({"scores": [0.0]}, "lacks the scores of its "),
        ({"unknown_token_id": 999}, "its unknown token 999 none of them"),
        ({"precompiled_charsmap": [255] * 40}, "is corrupt"),
        ({"precompiled_charsmap": [8, 0, 0, 0, *[255] * 8]}, "is corrupt"),
    ],
)
def test_a_unigram_tokenizer_with_other_settings_is_refused(settings, words, t5, tmp_path):
    with pytest.raises(EdgespecError, match=words):
        tokenizer_of(tmp_path, unigram_keys(t5, **settings))


def test_a_unigram_text_has_no_end_if_the_file_says_so(t5, tmp_path):
    tokenizer = tokenizer_of(tmp_path, unigram_keys(t5, add_eos_token=False))
    assert tokenizer.encode("the cats").ids == t5.encode("the cats")


@pytest.fixture(scope="module")
def phi3():
    return trained(
        model_type="bpe",
        vocab_size=320,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
    )


TURNS = [("<|endoftext|>", CONTROL), ("<|user|>", CONTROL), ("<|end|>", USER)]


@pytest.mark.parametrize("prefix", [None, True])
def test_a_phi_3_puts_a_space_before_a_text(prefix, phi3, tmp_path):
    keys = metadata_of(phi3, "llama", TURNS, add_space_prefix=prefix)
    tokenizer = tokenizer_of(tmp_path, keys, arch="phi3")
    for text in TEXTS[2:]:
        assert tokenizer.encode(text).ids == [phi3.bos_id(), *phi3.encode(text)], text
        assert tokenizer.decode(tokenizer.encode(text).ids) == text.replace("▁", " ")


def test_the_space_after_a_turn_of_phi_3_is_no_text(phi3, tmp_path):
    keys = metadata_of(phi3, "llama", TURNS, add_bos_token=False)
    tokenizer = tokenizer_of(tmp_path, keys, arch="phi3")
    end, user, close = (320 + index for index in range(3))
    words = phi3.encode("the cats")
    assert tokenizer.encode("<|user|>\n the cats<|end|>\n").ids == [user, *words, close]
    assert tokenizer.encode("<|endoftext|> cat").ids == [end, *phi3.encode(" cat")]


def test_other_models_with_a_space_before_texts_need_their_tokenizer(phi3, tmp_path):
    with pytest.raises(EdgespecError, match=r"tokenizer\.json"):
        tokenizer_of(tmp_path, metadata_of(phi3, "llama"), arch="llama")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("smaug-bpe", ["It", "'s", "Ġ", "123", "45", "ĠHelloWorld", "/ĊĊ", "Ġx"]),
        ("dbrx", ["It", "'s", "Ġ", "123", "45", "ĠHelloWorld", "/ĊĊ", "Ġx"]),
        ("lfm2", ["It", "'s", "Ġ", "123", "45", "ĠHelloWorld", "/ĊĊ", "Ġx"]),
        ("qwen35", ["It", "'s", "Ġ", *"12345", "ĠHelloWorld", "/ĊĊ", "Ġx"]),
        ("refact", ["It", "'s", "Ġ", *"12345", "ĠHelloWorld", "/", "ĊĊ", "Ġx"]),
        ("gpt-4o", ["It's", "Ġ", "123", "45", "ĠHello", "World", "/ĊĊ", "Ġx"]),
        ("tekken", ["It", "'s", "Ġ", *"12345", "ĠHello", "World", "/ĊĊ", "Ġx"]),
        ("hunyuan-dense", ["It", "'s", "Ġ", "123", "45", "ĠHelloWorld", "/ĊĊ", "Ġx"]),
        ("seed-coder", ["It", "'s", "Ġ", *"12345", "ĠHelloWorld", "/", "ĊĊ", "Ġx"]),
    ],
)
def test_a_pre_tokenizer_splits_as_its_model_does(name, words):
    steps = list(PRE_TOKENIZERS[name].steps)
    made = {
        "version": "1.0",
        "model": {"type": "BPE", "vocab": {}, "merges": []},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps},
    }
    split = Tokenizer.from_str(json.dumps(made)).pre_tokenizer
    assert [word for word, _ in split.pre_tokenize_str("It's 12345 HelloWorld/\n\n x")] == words
