"""Every kind of tokenizer that the readers in other languages are compared with Python's on."""

from __future__ import annotations

from pathlib import Path

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from edgespec_export.checkpoint.json_file import read_json_object
from edgespec_export.checkpoint.tokenizer.tokenizers_file import load_tokenizer
from tokenizer_folders import byte_bpe
from tokenizer_kinds import FOLDERS

__all__ = ["KINDS", "OTHERS", "WITH_NEW", "bytes_after", "changed", "of_kind", "shipped"]

ROOT = Path(__file__).parents[1]


def changed(tokenizer, **parts):
    for name, part in parts.items():
        setattr(tokenizer, name, part)
    return tokenizer


def byte_unigram():
    """A Unigram model with bytes for unknown characters, as mT5's published tokenizer.json."""
    special = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    pieces = [("▁", -3.0), ("▁hello", -1.0), ("a", -4.0), ("é", -5.0), ("日本", -5.0)]
    alphabet = [(f"<0x{byte:02X}>", -20.0) for byte in range(256)]
    model = models.Unigram([*special, *alphabet, *pieces], unk_id=2, byte_fallback=True)
    return changed(
        Tokenizer(model),
        pre_tokenizer=pre_tokenizers.Metaspace(),
        decoder=decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()]),
    )


def split(behavior, invert=False):
    return changed(
        byte_bpe(regex=False),
        pre_tokenizer=pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split("o", behavior, invert),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        ),
    )


def bytes_after(pre_tokenizer):
    plain = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return changed(byte_bpe(), pre_tokenizer=pre_tokenizers.Sequence([pre_tokenizer, plain]))


OTHERS = {
    "the draft of SmolLM2": lambda: shipped("smollm2-draft"),
    "English to German, with a table of characters": lambda: shipped("en-de-target"),
    "Unigram with bytes": byte_unigram,
    "runs of digits": lambda: bytes_after(pre_tokenizers.Digits()),
    "words": lambda: bytes_after(pre_tokenizers.Whitespace()),
    "what is not white space": lambda: bytes_after(pre_tokenizers.WhitespaceSplit()),
    "small letters": lambda: changed(byte_bpe(), normalizer=normalizers.Lowercase()),
    "no accents": lambda: changed(
        byte_bpe(), normalizer=normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents()])
    ),
    **{
        f"split: {behavior}": lambda behavior=behavior: split(behavior)
        for behavior in (
            "removed",
            "isolated",
            "merged_with_previous",
            "merged_with_next",
            "contiguous",
        )
    },
}
WITH_NEW = {
    "inverted": lambda: split("merged_with_next", invert=True),
    "scripts": lambda: bytes_after(pre_tokenizers.UnicodeScripts()),
    "prefixes": lambda: Tokenizer(models.BPE({"a": 0}, [], continuing_subword_prefix="##")),
}


def shipped(name):
    return Tokenizer.from_file(str(ROOT / "models" / name / "tokenizer.json"))


def of_kind(name, folder):
    if name in OTHERS or name in WITH_NEW:
        return {**OTHERS, **WITH_NEW}[name]()
    written = FOLDERS[name](folder)
    return load_tokenizer(written, read_json_object(written / "config.json"))


# Those that transformers saves are read as the kinds that they were made from.
KINDS = [
    name for name in (*FOLDERS, *OTHERS, *WITH_NEW) if not name.endswith("saved by a new version")
]
