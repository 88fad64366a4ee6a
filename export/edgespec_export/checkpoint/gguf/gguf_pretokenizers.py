"""What the pre-tokenizer names in GGUF files stand for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["PRE_TOKENIZERS", "Rules", "byte_level"]


@dataclass(frozen=True)
class Rules:
    """Parts of a `tokenizer.json`, beyond vocabulary and merges.

    Attributes:
        steps: its pre-tokenizers, in order.
        normalizer: its normalizer.
        ignore_merges: whether a whole word of the vocabulary is taken before merges are tried.
        adds_bos: whether a text starts with the bos token, unless the file says otherwise.
    """

    steps: tuple[dict[str, Any], ...]
    normalizer: dict[str, Any] | None = None
    ignore_merges: bool = False
    adds_bos: bool = False


def byte_level(*, use_regex: bool) -> dict[str, Any]:
    """The byte-level step, which also splits words GPT-2's way if `use_regex`."""
    flags = {"add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}
    return {"type": "ByteLevel", **flags}


def _split(numbers: str) -> dict[str, Any]:
    pattern = (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|" + numbers + r"|"
        r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    split = {"pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return {"type": "Split", **split}


# Each as the tokenizer.json of the model it is named after has it. "default" is not here, nor a
# missing name: llama.cpp then falls back to rules of its own, which no model was trained with.
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
