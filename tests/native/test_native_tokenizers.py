"""Claim: libedgespec has the token ids and texts of the package tokenizers for every kind of
tokenizer, or refuses it by name."""

from __future__ import annotations

import json
import os
import random

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

from edgespec.pair.tokenizer import GrowingText
from edgespec_export.checkpoint.gguf.gguf_pretokenizers import PRE_TOKENIZERS
from edgespec_export.checkpoint.tokenizer.written_tokenizer import written_tokenizer
from native_tokenizer import TEXT, NativeTokenizer
from tokenizer_folders import byte_bpe, texts
from tokenizers_of_kinds import KINDS, OTHERS, WITH_NEW, bytes_after, changed, of_kind

# EDGESPEC_TEXTS=10000 compares so many texts of each kind of tokenizer.
COUNT = int(os.environ.get("EDGESPEC_TEXTS", "2"))
HOSTILE = (
    "\x00",
    "a\x00b",
    "\r\n\r\n \r",
    "\ufeff",
    "\u2028\u2029\x85\x1c",
    "\u0301",
    "e\u0301\u0327\u0301",
    "\u1100\u1161\u11a8\uac00\u11a8",
    "©\u200d®",
    "\U0001f1e9\U0001f1ea\U0001f1e9",
    "ﬁ\u0301x",
    "ΣΑΣ",
    "İıſK",
    "'S 'ſ 'LL",
    "\U000e0041\U0010ffff",
    "a" * 300,
    " " * 300,
    "1" * 40,
    "\t" * 9 + "x",
    "क्षि ด้วย",
    "x<s>y <unk></s>",
    "<|im_start|>user\n<|im_end|>",
    "☃\ufe0f️",
    "\u0600a\u0600",
)


def random_texts(count: int) -> list[str]:
    """Characters of all of Unicode, the first planes more often."""
    draw = random.Random(1)
    planes = (0x80, 0x800, 0x3000, 0xD800, 0x20000, 0x110000)
    found = []
    for _ in range(count):
        codes = [draw.randrange(draw.choice(planes)) for _ in range(draw.randint(1, 12))]
        found.append("".join(chr(code) for code in codes if not 0xD800 <= code < 0xE000))
    return found


TEXTS = [*texts(COUNT), *HOSTILE, *random_texts(COUNT)]


def normalized(normalizer):
    return lambda: changed(byte_bpe(), normalizer=normalizer)


def of_gguf(name):
    """Bytes and merges with the rules of a pre-tokenizer that GGUF files name."""
    rules, made = PRE_TOKENIZERS[name], json.loads(byte_bpe().to_str())
    made["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": list(rules.steps)}
    made["normalizer"] = rules.normalizer
    made["model"]["ignore_merges"] = rules.ignore_merges
    return Tokenizer.from_str(json.dumps(made))


def split_at(pattern):
    return lambda: bytes_after(pre_tokenizers.Split(Regex(pattern), "isolated"))


def suffixed():
    model = models.BPE(
        {"<unk>": 0, "a": 1, "b": 2, "a</w>": 3, "b</w>": 4, "ab</w>": 5, "aa": 6},
        [("a", "b</w>"), ("a", "a")],
        unk_token="<unk>",
        end_of_word_suffix="</w>",
    )
    return changed(Tokenizer(model), pre_tokenizer=pre_tokenizers.Whitespace())


def with_flags():
    made = byte_bpe()
    made.add_tokens(
        [
            AddedToken("<think>", single_word=True),
            AddedToken("<thinking>", lstrip=True),
            AddedToken("Ab", normalized=True, rstrip=True),
        ]
    )
    return changed(made, normalizer=normalizers.Lowercase())


def bert_around():
    made = byte_bpe()
    made.post_processor = processors.Sequence(
        [processors.ByteLevel(), processors.RobertaProcessing(("</s>", 2), ("<s>", 1))]
    )
    return made


CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)
MORE = {
    **{f"GGUF's {name}": lambda name=name: of_gguf(name) for name in PRE_TOKENIZERS},
    "cl100k": split_at(CL100K),
    "numbers from the right": split_at(r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))|\P{N}+"),
    "classes in classes": split_at(
        r"[\p{L}&&[^\p{Lu}]]+|[^a-zé\s]+?(?=\s)|(?<=[a-c])x|\bq|[\d\-\]]"
    ),
    "Chinese": split_at(r"\p{Han}+"),
    "NFC": normalized(normalizers.NFC()),
    "NFD": normalized(normalizers.NFD()),
    "NFKC": normalized(normalizers.NFKC()),
    "NFKD": normalized(normalizers.NFKD()),
    "Nmt": normalized(normalizers.Nmt()),
    "stripped": normalized(normalizers.Strip()),
    "spaces": normalized(normalizers.Replace(Regex(r"\s{2,}|\n"), "␠")),
    "byte characters": normalized(normalizers.ByteLevel()),
    "suffixes": suffixed,
    "flags of added tokens": with_flags,
    "tokens around": bert_around,
    "punctuation": lambda: bytes_after(pre_tokenizers.Punctuation("merged_with_previous")),
    "runs of punctuation": lambda: bytes_after(pre_tokenizers.Punctuation("contiguous")),
    "commas": lambda: bytes_after(pre_tokenizers.CharDelimiterSplit(",")),
    "first words": lambda: changed(
        of_others("Unigram with bytes"),
        pre_tokenizer=pre_tokenizers.Metaspace(prepend_scheme="first", split=False),
    ),
}  # fmt: skip


def of_others(name):
    return {**OTHERS, **WITH_NEW}[name]()


NOT_READ = {"scripts": "the pre-tokenizer UnicodeScripts"}
NAMES = [name for name in (*KINDS, *MORE) if name not in NOT_READ]


@pytest.fixture
def kind(hooks, tmp_path):
    def opened(name):
        made = MORE[name]() if name in MORE else of_kind(name, tmp_path / "source")
        (tmp_path / "tokenizer.json").write_text(written_tokenizer(made), encoding="utf-8")
        return made, NativeTokenizer(hooks, tmp_path / "tokenizer.json")

    return opened


def outcome(function, *given):
    """What a function gives, or that it fails."""
    try:
        return function(*given)
    except Exception:
        return "fails"


@pytest.mark.parametrize("name", NAMES)
def test_token_ids_and_texts_are_those_of_tokenizers(kind, name):
    own, native = kind(name)
    plain = Tokenizer.from_str(own.to_str())
    plain.encode_special_tokens = True
    draw, size = random.Random(2), own.get_vocab_size()
    for text in TEXTS:
        ids = outcome(lambda text: own.encode(text).ids, text)
        assert outcome(native.encode, text) == ids, ascii(text)
        alone = outcome(lambda text: plain.encode(text, add_special_tokens=False).ids, text)
        assert outcome(native.encode, text, TEXT) == alone, ascii(text)
        drawn = [draw.randrange(size + 1) for _ in range(6)]
        for tokens in (ids, drawn):
            if tokens != "fails":
                assert native.decode(tokens) == own.decode(tokens), tokens
    assert native.decode(drawn, False) == own.decode(drawn, skip_special_tokens=False)


def test_merges_of_older_pairs_are_read_as_pairs(kind, hooks, tmp_path):
    own, native = kind("the draft of SmolLM2")
    own.save(str(tmp_path / "pairs.json"))
    in_pairs = NativeTokenizer(hooks, tmp_path / "pairs.json")
    assert [in_pairs.encode(text) for text in TEXTS] == [native.encode(text) for text in TEXTS]


@pytest.mark.parametrize(
    "name", ["the draft of SmolLM2", "English to German, with a table of characters", "Llama"]
)
def test_a_growing_text_is_the_whole_text(kind, name):
    own, native = kind(name)
    draw, size = random.Random(3), own.get_vocab_size()
    for number, text in enumerate(TEXTS):
        tokens = own.encode(text, add_special_tokens=False).ids
        if number % 3 == 0:
            tokens += [draw.randrange(size) for _ in range(5)]
        before = tokens[: draw.randrange(len(tokens) + 1)] if number % 2 else []
        rest = tokens[len(before) :]
        stop = [text[-3:-1].replace("\0", "") or "x", "he", "\n"] if number % 5 == 0 else []
        growing = GrowingText(own, stop, before=before)
        expected = ["" if growing.stopped else growing.add(token) for token in rest]
        expected.append(growing.end())
        assert native.grow(before, rest, stop) == expected, ascii(text)


@pytest.mark.parametrize("name", NOT_READ)
def test_what_is_not_known_is_refused_by_name(hooks, tmp_path, name):
    path = tmp_path / "tokenizer.json"
    of_others(name).save(str(path))
    with pytest.raises(ValueError, match="does not read") as refused:
        NativeTokenizer(hooks, path)
    assert str(refused.value) == (
        f"{path} has {NOT_READ[name]}, which libedgespec does not read; give token ids, or use "
        "Python"
    )


@pytest.mark.parametrize("name", ["Llama", "T5", "BERT's", "Qwen2"])
def test_a_damaged_file_is_an_error_or_another_tokenizer(hooks, tmp_path, name):
    path = tmp_path / "tokenizer.json"
    whole, draw = of_kind(name, tmp_path / "source").to_str(), random.Random(4)
    refused: list[str] = []
    for _ in range(int(os.environ.get("EDGESPEC_DAMAGES", "40"))):
        at = draw.randrange(len(whole))
        damaged = (
            whole[:at]
            + draw.choice(('"', "0", "-1", "]", "}", "null", "\\u0000", "["))
            + (whole[at + draw.choice((0, 1, 1, 9)) :])
        )
        path.write_text(damaged)
        try:
            native = NativeTokenizer(hooks, path)
        except ValueError as error:
            refused.append(str(error))
            continue
        for text in ("Hello <s> wörld", "日本\x00"):
            tokens = outcome(native.encode, text)
            outcome(native.decode, [1, 2, 300] if tokens == "fails" else tokens)
    assert refused
    assert all(str(path) in message for message in refused)


def test_a_unigram_vocabulary_without_scores_is_an_error(hooks, tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps({"model": {"type": "Unigram", "unk_id": 0, "vocab": {"a": 9}}}))
    with pytest.raises(ValueError, match="lacks scores"):
        NativeTokenizer(hooks, path).encode("a")


@pytest.mark.parametrize("number", ["1e300", "-1e19", "9.3e15"])
@pytest.mark.parametrize("known", ['"id":0', '"<s>":1'])
def test_a_number_that_no_whole_one_holds_is_an_error(hooks, tmp_path, known, number):
    path, whole = tmp_path / "tokenizer.json", byte_bpe().to_str()
    assert known in whole
    path.write_text(whole.replace(known, f"{known[:-1]}{number}"))
    with pytest.raises(ValueError, match=r"is not a tokenizer \(a number is too large\)"):
        NativeTokenizer(hooks, path)
