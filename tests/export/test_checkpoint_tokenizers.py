"""Claim: a folder's tokenizer gives the ids that its model was trained with, and two tokenizers are
compared in full.

SentencePiece files are written as bytes; the reference is transformers, where it is installed.
"""

import json
import struct

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE, Unigram

from checkpoints import character_tokenizer
from edgespec.errors import EdgespecError
from edgespec_export.checkpoint.tokenizer import tokenizers_file
from edgespec_export.checkpoint.tokenizer.tokenizer_diff import same_tokenizer
from edgespec_export.checkpoint.tokenizer.tokenizers_file import load_tokenizer

NORMAL, UNKNOWN, CONTROL, USER, BYTE = 1, 2, 3, 4, 6
PIECES = [
    ("<pad>", 0.0, CONTROL),
    ("</s>", 0.0, CONTROL),
    ("<unk>", 0.0, UNKNOWN),
    ("▁", -2.0, NORMAL),
    ("▁the", -3.0, NORMAL),
    ("t", -4.0, NORMAL),
    ("he", -4.5, NORMAL),
    ("h", -5.0, NORMAL),
    ("e", -5.5, NORMAL),
    ("▁ca", -3.5, NORMAL),
    ("ts", -3.6, NORMAL),
]
BYTE_PIECES = [(f"<0x{byte:02X}>", -9.0, BYTE) for byte in range(256)]
AWKWARD = [
    "",
    " ",
    "the cats",
    "  the   cats  ",
    "the\tcats\n",
    "naïve 日本語 😀",
    "cats<extra_id_0>the",
    "▁the",
]
BYT5 = {"model_type": "t5", "tokenizer_class": "ByT5Tokenizer"}


def difference(target, draft, vocab_size=10**6):
    return same_tokenizer(target, draft, vocab_size)


def varint(value):
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def spiece(pieces=PIECES, trainer=(), normalizer=()):
    """A ModelProto: pieces, trainer_spec, normalizer_spec."""
    settings = {3: 1, 40: 2} | dict(trainer)
    return (
        b"".join(
            field(1, field(1, text.encode()) + field(2, score) + field(3, kind))
            for text, score, kind in pieces
        )
        + field(2, b"".join(field(*pair) for pair in settings.items()))
        + field(3, b"".join(field(*pair) for pair in dict(normalizer).items()))
    )


def message_of(folder, config=None) -> str:
    with pytest.raises(EdgespecError) as caught:
        load_tokenizer(folder, config or {})
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- SentencePiece -------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "spiece.model").write_bytes(spiece())
    return tmp_path


def test_a_sentencepiece_file_becomes_t5s_tokenizer(folder):
    tokenizer = load_tokenizer(folder, {"model_type": "t5"})
    assert tokenizer.encode("the  cats ").tokens == ["▁the", "▁ca", "ts", "</s>"]
    assert tokenizer.encode("the cats").ids == [4, 9, 10, 1]
    assert tokenizer.decode([4, 9, 10, 1]) == "the cats"


def test_the_extra_ids_follow_in_t5s_order(folder):
    tokenizer = load_tokenizer(folder, {})
    assert tokenizer.get_vocab_size() == len(PIECES) + 100
    assert tokenizer.token_to_id("<extra_id_99>") == len(PIECES)
    assert tokenizer.token_to_id("<extra_id_0>") == len(PIECES) + 99
    (folder / "tokenizer_config.json").write_text('{"extra_ids": 0}')
    assert load_tokenizer(folder, {}).get_vocab_size() == len(PIECES)


def test_it_is_the_tokenizer_transformers_makes(folder):
    t5 = pytest.importorskip("transformers").T5Tokenizer.from_pretrained(folder)
    ours = json.loads(load_tokenizer(folder, {}).to_str())
    theirs = json.loads(t5.backend_tokenizer.to_str())
    assert ours == theirs


def test_it_gives_the_ids_sentencepiece_gives(folder):
    sentencepiece = pytest.importorskip("sentencepiece")
    reference = sentencepiece.SentencePieceProcessor(model_proto=spiece())
    tokenizer = load_tokenizer(folder, {})
    for text in ("", "the cats", "  the   cats  ", "naïve 日本語", "hehethe"):
        assert tokenizer.encode(text).ids == [*reference.encode(text), 1]


def test_unknown_characters_become_bytes_if_the_model_has_byte_pieces(folder):
    sentencepiece = pytest.importorskip("sentencepiece")
    content = spiece([*PIECES, *BYTE_PIECES], trainer={35: 1})
    (folder / "spiece.model").write_bytes(content)
    reference = sentencepiece.SentencePieceProcessor(model_proto=content)
    tokenizer = load_tokenizer(folder, {})
    for text in ("the 日本語", "😀 cats", "naïve"):
        assert tokenizer.encode(text).ids == [*reference.encode(text), 1]
        assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_a_user_defined_piece_is_one_token(folder):
    (folder / "spiece.model").write_bytes(spiece([*PIECES, ("<sep>", 0.0, USER)]))
    assert "<sep>" in load_tokenizer(folder, {}).encode("the<sep>cats").tokens


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (spiece(trainer={3: 2}), "not a unigram model"),
        (spiece(normalizer={3: 0}), "add_dummy_prefix"),
        (spiece(normalizer={4: 0}), "remove_extra_whitespaces"),
        (spiece(normalizer={2: b"nonsense"}), "corrupt"),
        (spiece(trainer={40: 999}), "corrupt"),
        (spiece(PIECES[2:]), "no piece '</s>'"),
        (b"", "no piece '</s>'"),
        (b"\xff" * 40, "not a SentencePiece model"),
        (b"\x0b" * 40, "not a SentencePiece model"),
    ],
)
def test_a_sentencepiece_file_that_is_not_t5s_is_refused(folder, content, named):
    (folder / "spiece.model").write_bytes(content)
    assert named in message_of(folder)


def test_no_truncation_or_corrupt_byte_escapes(folder):
    whole = spiece()
    for at in range(len(whole)):
        flipped = bytearray(whole)
        flipped[at] ^= 0xFF
        for content in (whole[:at], bytes(flipped)):
            (folder / "spiece.model").write_bytes(content)
            try:
                load_tokenizer(folder, {})
            except EdgespecError as error:
                assert "\n" not in str(error)  # noqa: PT017 (some bytes are harmless)


# --- ByT5 ----------------------------------------------------------------------------------------


def test_byt5s_ids_are_its_bytes(tmp_path):
    tokenizer = load_tokenizer(tmp_path, BYT5)
    assert tokenizer.encode("aé").ids == [*(byte + 3 for byte in "aé".encode()), 1]
    assert tokenizer.get_vocab_size() == 3 + 256 + 125
    for byte in range(256):
        assert tokenizer.id_to_token(byte + 3) is not None
    text = "naïve 日本語\n\t 😀 "
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_byt5_is_found_in_the_tokenizers_settings_too(tmp_path):
    settings = {"tokenizer_class": "ByT5Tokenizer", "extra_ids": 3}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    assert load_tokenizer(tmp_path, {"model_type": "t5"}).get_vocab_size() == 3 + 256 + 3


def test_byt5_is_the_tokenizer_of_transformers(tmp_path):
    reference = pytest.importorskip("transformers").ByT5Tokenizer()
    tokenizer = load_tokenizer(tmp_path, BYT5)
    texts = [
        *AWKWARD,
        "a </s> b",
        "<pad> x",
        "a <unk>",
        "<extra_id_124> <extra_id_125>",
        "\x00\x7f",
    ]
    for text in texts:
        assert tokenizer.encode(text).ids == reference(text)["input_ids"], text


# --- files ---------------------------------------------------------------------------------------


def test_a_tokenizer_json_comes_first_and_loses_truncation_and_padding(folder):
    saved = bpe()
    saved.enable_truncation(2)
    saved.enable_padding(length=9)
    saved.save(str(folder / "tokenizer.json"))
    tokenizer = load_tokenizer(folder, {})
    assert tokenizer.truncation is None
    assert tokenizer.padding is None
    assert tokenizer.encode("ababab").tokens == ["ab", "ab", "ab"]


def test_a_corrupt_tokenizer_json_is_one_line(tmp_path):
    for content in (b"", b"{", b"[]", b'{"model": {"type": "Unheard"}}', b"\xff"):
        (tmp_path / "tokenizer.json").write_bytes(content)
        assert "tokenizer.json" in message_of(tmp_path)


@pytest.mark.parametrize("charsmap", [None, "x", [], "AAAA"], ids=str)
def test_a_tokenizer_json_on_which_the_library_panics_is_one_line(folder, charsmap):
    """The library raises PanicException, a BaseException, while it loads the file."""
    whole = json.loads(load_tokenizer(folder, {}).to_str())
    whole["normalizer"] = {"type": "Precompiled", "precompiled_charsmap": charsmap}
    (folder / "tokenizer.json").write_text(json.dumps(whole))
    assert "tokenizer.json: is not a tokenizer" in message_of(folder)


def test_a_tokenizer_json_that_panics_on_encoding_is_one_line(folder):
    """Its post-processor adds a special token that is not defined."""
    whole = json.loads(load_tokenizer(folder, {}).to_str())
    whole["post_processor"]["special_tokens"] = {}
    (folder / "tokenizer.json").write_text(json.dumps(whole))
    assert "tokenizer.json: is not a tokenizer" in message_of(folder)


def test_ctrl_c_while_a_tokenizer_is_read_stays_ctrl_c(tmp_path, monkeypatch):
    class Interrupted:
        @staticmethod
        def from_file(path):
            raise KeyboardInterrupt

    (tmp_path / "tokenizer.json").touch()
    monkeypatch.setattr(tokenizers_file, "Tokenizer", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        load_tokenizer(tmp_path, {})


@pytest.mark.parametrize("count", ["-1", "true", '"many"', "1000000000"])
def test_a_number_of_extra_ids_out_of_range_is_refused(folder, count):
    (folder / "tokenizer_config.json").write_text(f'{{"extra_ids": {count}}}')
    assert "extra_ids" in message_of(folder)


def test_a_folder_without_tokenizer_says_what_was_looked_for(tmp_path):
    assert "spiece.model" in message_of(tmp_path, {"model_type": "t5"})


# --- comparing two -------------------------------------------------------------------------------


def bpe(vocabulary=("a", "b", "ab", "ba"), merges=(("a", "b"), ("b", "a")), **options):
    ids = {token: index for index, token in enumerate(vocabulary)}
    return Tokenizer(BPE(ids, list(merges), **options))


def unigram(score=-1.0):
    return Tokenizer(Unigram([("<unk>", 0.0), ("a", score), ("b", -2.0)], unk_id=0))


def changed(tokenizer, **parts):
    for name, part in parts.items():
        setattr(tokenizer, name, part)
    return tokenizer


def with_token(tokenizer, *tokens):
    tokenizer.add_tokens(list(tokens))
    return tokenizer


@pytest.mark.parametrize(
    ("target", "draft", "said"),
    [
        (bpe(), bpe(("b", "a", "ab", "ba")), "token 0 is 'a' in the target and 'b' in the draft"),
        (bpe(), bpe(("a", "b", "ab", "ba", "c")), "token 4 is missing in the target and 'c'"),
        (bpe(), bpe(merges=(("b", "a"), ("a", "b"))), "model merges 0"),
        (bpe(), bpe(ignore_merges=True), "model ignore_merges is false in the target and true"),
        (unigram(), unigram(-1.5), "model score of a is -1.0 in the target and -1.5 in the draft"),
        (bpe(), changed(bpe(), normalizer=normalizers.NFC()), "normalizer is null"),
        (
            changed(bpe(), pre_tokenizer=pre_tokenizers.Digits(True)),
            changed(bpe(), pre_tokenizer=pre_tokenizers.Digits(False)),
            "pre_tokenizer individual_digits",
        ),
        (
            changed(bpe(), decoder=decoders.Metaspace()),
            changed(bpe(), decoder=decoders.Metaspace(prepend_scheme="never")),
            "decoder prepend_scheme",
        ),
        (
            with_token(bpe(), AddedToken("<x>", lstrip=True)),
            with_token(bpe(), AddedToken("<x>", lstrip=False)),
            "added token <x> lstrip is true in the target and false in the draft",
        ),
        (with_token(bpe(), "<x>"), with_token(bpe(), "<y>"), "token 4 is '<x>'"),
    ],
)
def test_the_first_difference_is_named(target, draft, said):
    line = difference(target, draft)
    assert line is not None
    assert said in line
    assert "\n" not in line


def test_settings_that_cannot_change_a_token_are_ignored(folder):
    one, other = (load_tokenizer(folder, {}) for _ in range(2))
    other.post_processor = None
    other.enable_truncation(4)
    other.enable_padding(length=8)
    assert difference(one, other) is None
    byte_level = pre_tokenizers.ByteLevel
    assert (
        difference(
            changed(bpe(), pre_tokenizer=byte_level(trim_offsets=True)),
            changed(bpe(), pre_tokenizer=byte_level(trim_offsets=False)),
        )
        is None
    )


def test_extra_ids_that_only_one_of_them_has_are_ignored(folder):
    full = load_tokenizer(folder, {})
    (folder / "tokenizer_config.json").write_text('{"extra_ids": 0}')
    bare = load_tokenizer(folder, {})
    assert difference(full, bare) is None
    assert difference(bare, full) is None


def test_equal_extra_ids_with_different_numbers_are_a_difference(folder):
    full = load_tokenizer(folder, {})
    (folder / "tokenizer_config.json").write_text('{"extra_ids": 99}')
    fewer = load_tokenizer(folder, {})
    assert "'<extra_id_99>' in the target" in (difference(full, fewer) or "")


def test_a_saved_tokenizer_is_the_same_as_the_one_it_was_saved_from(folder):
    built = load_tokenizer(folder, {})
    built.save(str(folder / "tokenizer.json"))
    assert difference(built, load_tokenizer(folder, {})) is None


def test_tokens_that_neither_model_has_make_no_difference(tmp_path):
    one, other = character_tokenizer(300), character_tokenizer(300)
    size = one.get_vocab_size()
    one.add_special_tokens(["<|endoftext|>"])
    other.add_special_tokens(["<s>"])
    assert difference(one, other, size) is None
    assert "<|endoftext|>" in (difference(one, other, size + 1) or "")
