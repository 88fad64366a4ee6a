"""Values of a GGUF file's metadata, checked."""

from __future__ import annotations

import numpy as np

from edgespec.errors import EdgespecError, shortened
from edgespec_export.checkpoint.gguf.gguf_header import GgufHeader
from edgespec_export.checkpoint.json_file import JsonValue

__all__ = ["count", "has_bias", "number", "required", "vocab_size"]


def count(header: GgufHeader, key: str, default: int | None = None) -> int:
    """A number of things, at least 1.

    Raises:
        EdgespecError: the key is missing and has no default, or its value is no such number.
    """
    value = required(header, key) if default is None else header.metadata.get(key, default)
    if type(value) is not int or value < 1:
        shown = "a list, one for each layer" if isinstance(value, list) else shortened(value)
        raise EdgespecError(f"{header.path}: {key} is {shown}; only one number ≥ 1 is supported")
    return value


def number(header: GgufHeader, key: str, default: float | None = None) -> float:
    """The shortest decimal of a float32: 1e-05, where the file has 9.99999975e-06.

    Raises:
        EdgespecError: the key is missing and has no default, or its value is no number.
    """
    value = required(header, key) if default is None else header.metadata.get(key, default)
    if not isinstance(value, int | float):
        raise EdgespecError(f"{header.path}: {key} is {shortened(value)}, not a number")
    return float(str(np.float32(value)))


def required(header: GgufHeader, key: str) -> JsonValue:
    """The value of a key.

    Raises:
        EdgespecError: the key is missing.
    """
    if key not in header.metadata:
        raise EdgespecError(f"{header.path}: lacks {key}: convert the model again")
    return header.metadata[key]


def vocab_size(header: GgufHeader) -> int:
    """How many tokens the embedding has.

    Raises:
        EdgespecError: there is no embedding.
    """
    if "token_embd.weight" not in header.tensors:
        raise EdgespecError(f"{header.path}: has no token_embd.weight: is it a vocabulary only?")
    return header.tensors["token_embd.weight"].shape[0]


def has_bias(header: GgufHeader, parts: tuple[str, ...]) -> bool:
    """Whether these projections of the first layer have a bias.

    Args:
        parts: as "attn_q".

    Raises:
        EdgespecError: some have one and some have none.
    """
    biased = [part for part in parts if f"blk.0.{part}.bias" in header.tensors]
    if biased and len(biased) < len(parts):
        raise EdgespecError(
            f"{header.path}: only {', '.join(biased)} of {', '.join(parts)} have a bias: "
            "not supported"
        )
    return bool(biased)
