"""The rules of each pre-tokenizer that GGUF files name."""

from __future__ import annotations

from dataclasses import dataclass

from edgespec_export.checkpoint.json_file import JsonObject

__all__ = ["PRE_TOKENIZERS", "Rules", "byte_level"]


@dataclass(frozen=True)
class Rules:
    """The parts of a `tokenizer.json` that are not its vocabulary and merges.

    Attributes:
        steps: the pre-tokenizers, in order.
        normalizer: the normalizer.
        ignore_merges: whether a word of the vocabulary becomes one token without any merge.
        adds_bos: whether a text starts with the bos token, unless the file says otherwise.
    """

    steps: tuple[JsonObject, ...]
    normalizer: JsonObject | None = None
    ignore_merges: bool = False
    adds_bos: bool = False


def byte_level(*, use_regex: bool) -> JsonObject:
    """The byte-level step, which also splits words GPT-2's way if `use_regex`."""
    flags = {"add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}
    return {"type": "ByteLevel", **flags}


def _split(numbers: str) -> JsonObject:
    pattern = (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|" + numbers + r"|"
        r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    return {
        "type": "Split",
        "pattern": {"Regex": pattern},
        "behavior": "Isolated",
        "invert": False,
    }


# Each as in the tokenizer.json of the model it is named after. "default" and a missing name are not
# supported: llama.cpp then falls back to rules that no model was trained with.
PRE_TOKENIZERS = {
    "gpt-2": Rules(steps=(byte_level(use_regex=True),)),
    "llama-bpe": Rules(
        steps=(_split(r"\p{N}{1,3}"), byte_level(use_regex=False)),
        ignore_merges=True,
        adds_bos=True,
    ),
    "qwen2": Rules(
        steps=(_split(r"\p{N}"), byte_level(use_regex=False)),
        normalizer={"type": "NFC"},
    ),
    "smollm": Rules(
        steps=({"type": "Digits", "individual_digits": True}, byte_level(use_regex=True)),
    ),
}
