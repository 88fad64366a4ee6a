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
        adds_bos, adds_eos: whether a text starts with the bos token, and ends with the eos token,
            unless the file says otherwise.
    """

    steps: tuple[JsonObject, ...]
    normalizer: JsonObject | None = None
    ignore_merges: bool = False
    adds_bos: bool = False
    adds_eos: bool = False


def byte_level(*, use_regex: bool) -> JsonObject:
    """The byte-level step, which also splits words GPT-2's way if `use_regex`."""
    flags = {"add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}
    return {"type": "ByteLevel", **flags}


def _isolated(pattern: str) -> JsonObject:
    return {
        "type": "Split",
        "pattern": {"Regex": pattern},
        "behavior": "Isolated",
        "invert": False,
    }


def _split(*patterns: str) -> tuple[JsonObject, ...]:
    """Splits at each pattern in turn, then writes bytes as characters."""
    return (*map(_isolated, patterns), byte_level(use_regex=False))


_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_SPACES = r"|\s*[\r\n]+|\s+(?!\S)|\s+"


def _words(numbers: str, others: str = r" ?[^\s\p{L}\p{N}]+[\r\n]*") -> str:
    return _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|" + numbers + "|" + others + _SPACES


def _cased_words(contractions: str, numbers: str) -> str:
    """Words of which only the beginning may be upper case."""
    before, marks = r"[^\r\n\p{L}\p{N}]?", r"\p{Lm}\p{Lo}\p{M}]"
    upper, lower = r"[\p{Lu}\p{Lt}" + marks, r"[\p{Ll}" + marks
    return (
        f"{before}{upper}*{lower}+{contractions}|{before}{upper}+{lower}*{contractions}|{numbers}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n/]*" + _SPACES
    )


# Words with their combining marks.
_MARKED_WORDS = (
    _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*" + _SPACES
)
_DIGITS: tuple[JsonObject, ...] = (
    {"type": "Digits", "individual_digits": True},
    byte_level(use_regex=True),
)
_LLAMA3 = _split(_words(r"\p{N}{1,3}"))
# Numbers, Chinese and Japanese, then words, of DeepSeek 3.
_HUNYUAN = _split(
    r"\p{N}{1,3}",
    "[一-龥\u3040-ゟ゠-ヿ]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*" + _SPACES,
)

# Each as in the tokenizer.json of the model it is named after. "default" and a missing name are not
# supported: llama.cpp then falls back to rules that no model was trained with.
PRE_TOKENIZERS = {
    "gpt-2": Rules(steps=(byte_level(use_regex=True),)),
    "llama-bpe": Rules(steps=_LLAMA3, ignore_merges=True, adds_bos=True),
    "lfm2": Rules(steps=_LLAMA3, ignore_merges=True, adds_bos=True),
    "smaug-bpe": Rules(steps=_LLAMA3, ignore_merges=True),  # Llama 3's without a bos: SmolLM3
    "dbrx": Rules(steps=_LLAMA3),  # GPT-4's: Phi-4, Granite 4
    "qwen2": Rules(steps=_split(_words(r"\p{N}")), normalizer={"type": "NFC"}),
    "qwen35": Rules(steps=_split(_MARKED_WORDS), normalizer={"type": "NFC"}),
    "smollm": Rules(steps=_DIGITS),
    "refact": Rules(steps=_DIGITS),  # StarCoder's: Granite 3
    "starcoder": Rules(steps=_DIGITS),
    "gpt-4o": Rules(steps=_split(_cased_words(f"{_CONTRACTIONS}?", r"\p{N}{1,3}"))),  # Phi-4-mini
    "tekken": Rules(
        steps=_split(_cased_words("", r"\p{N}")), ignore_merges=True, adds_bos=True
    ),  # Ministral
    "hunyuan-dense": Rules(steps=_HUNYUAN),
    "seed-coder": Rules(steps=_split(_words(r"\p{N}{1}", r" ?[^\s\p{L}\p{N}\r\n]+"))),
}
