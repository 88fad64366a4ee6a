"""Whether two models have the same tokenizer."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from edgespec.errors import shortened
from edgespec_export.checkpoint.json_file import JsonObject, JsonValue

__all__ = ["same_tokenizer"]

_EXTRA = re.compile(r"<extra_id_\d+>")


def same_tokenizer(target: Tokenizer, draft: Tokenizer, vocab_size: int) -> str | None:
    """The first difference between two tokenizers in one line, or None.

    Args:
        vocab_size: of the larger of both models. A class of tokenizers may add tokens that its
            model does not have: they make no difference.

    Compared are contents, not sizes: every token's id, how added tokens are matched, the model's
    parameters with scores and merges, normalizer, pre-tokenizer and decoder.

    Ignored is what cannot change a token: the post-processor, truncation, padding, offsets, the
    flag `special` of an added token, and `<extra_id_…>` tokens that only one of the two has (T5
    checkpoints differ in their number).
    """
    return _vocabularies(target, draft, vocab_size) or _difference(
        "", _contents(target, vocab_size), _contents(draft, vocab_size)
    )


def _vocabularies(target: Tokenizer, draft: Tokenizer, vocab_size: int) -> str | None:
    ours, theirs = (
        {index: token for token, index in tokenizer.get_vocab(with_added_tokens=True).items()}
        for tokenizer in (target, draft)
    )
    if ours == theirs:
        return None
    for index in sorted(ours.keys() | theirs.keys()):
        one, other = ours.get(index), theirs.get(index)
        is_extra = None in (one, other) and _extra(one or other or "")
        if one == other or is_extra or index >= vocab_size:
            continue
        return f"token {index} is {_token(one)} in the target and {_token(other)} in the draft"
    return None


def _token(token: str | None) -> str:
    return "missing" if token is None else shortened(token)


def _contents(tokenizer: Tokenizer, vocab_size: int) -> JsonObject:
    """The parts that determine tokens, by their names in `tokenizer.json`."""
    whole = {key: _normalized(part) for key, part in json.loads(tokenizer.to_str()).items()}
    model = whole["model"]
    decoder: JsonObject = whole.get("decoder") or {}
    vocabulary = model.pop("vocab")
    if isinstance(vocabulary, list):  # unigram: [token, score]; ids are compared by the caller
        # As float32, their real type: JSON may change the last digit of their decimals.
        model["score of"] = {
            token: float(np.float32(score)) for token, score in vocabulary if not _extra(token)
        }
    if decoder.get("type") == "ByteLevel":
        decoder = {"type": "ByteLevel"}  # its flags matter only for encoding
    return {
        "added token": {
            token.pop("content"): token
            for token in whole["added_tokens"]
            if not _extra(token["content"]) and token["id"] < vocab_size
        },
        "model": model,
        "normalizer": whole.get("normalizer"),
        "pre_tokenizer": whole.get("pre_tokenizer"),
        "decoder": decoder,
    }


def _extra(token: str) -> bool:
    return _EXTRA.fullmatch(token) is not None


def _normalized(value: Any) -> Any:
    """A JSON value without keys that cannot change a token, and with None for an empty text."""
    if isinstance(value, dict):
        dropped = ("trim_offsets", "special")
        return {key: _normalized(part) for key, part in value.items() if key not in dropped}
    if isinstance(value, list):
        return [_normalized(part) for part in value]
    return None if value == "" else value


def _difference(where: str, one: JsonValue, other: JsonValue) -> str | None:
    """The first difference between two JSON values, in one line."""
    if one == other:
        return None
    if isinstance(one, dict) and isinstance(other, dict):
        pairs = [(key, one.get(key), other.get(key)) for key in {**one, **other}]
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = [(str(at), *pair) for at, pair in enumerate(zip(one, other, strict=True))]
    else:
        return _sentence(where, one, other)
    lines = (_difference(f"{where} {key}".strip(), ours, theirs) for key, ours, theirs in pairs)
    return next((line for line in lines if line is not None), None)


def _sentence(where: str, one: JsonValue, other: JsonValue) -> str:
    texts = [json.dumps(value, ensure_ascii=False) for value in (one, other)]
    same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(*texts, strict=False))
    skipped = max(0, sum(1 for _ in same) - 20)
    shown = [("…" if skipped else "") + _short(text[skipped:]) for text in texts]
    return f"{where} is {shown[0]} in the target and {shown[1]} in the draft"


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"
