"""The tokens of a GGUF file."""

from __future__ import annotations

from edgespec.errors import EdgespecError
from edgespec_export.checkpoint.gguf.gguf_header import GgufHeader
from edgespec_export.checkpoint.json_file import JsonValue

__all__ = [
    "BYTE",
    "CONTROL",
    "NORMAL",
    "UNUSED",
    "USER_DEFINED",
    "WAY_OUT",
    "list_of",
    "tokens_of",
]

# Types of tokens, of SentencePiece.
NORMAL = 1
CONTROL = 3
USER_DEFINED = 4
UNUSED = 5
BYTE = 6
WAY_OUT = "put the model's tokenizer.json into the folder of the GGUF file"


def tokens_of(header: GgufHeader) -> list[tuple[int, str, int]]:
    """(id, token, type) of every id.

    Raises:
        EdgespecError: they do not fit together.
    """
    tokens, types = list_of(header, "tokens"), list_of(header, "token_type")
    if len(tokens) != len(types):
        raise EdgespecError(
            f"{header.path}: has {len(tokens)} tokens but {len(types)} token types: {WAY_OUT}"
        )
    pairs = [
        (index, token, kind)
        for index, (token, kind) in enumerate(zip(tokens, types, strict=True))
        if isinstance(token, str) and isinstance(kind, int)
    ]
    if len(pairs) < len(tokens):
        raise EdgespecError(f"{header.path}: a token is not a text or its type not a number")
    return pairs


def list_of(header: GgufHeader, key: str) -> list[JsonValue]:
    """A list of `tokenizer.ggml.*`.

    Raises:
        EdgespecError: it is missing.
    """
    value = header.metadata.get(f"tokenizer.ggml.{key}")
    if not isinstance(value, list):
        raise EdgespecError(f"{header.path}: lacks tokenizer.ggml.{key}: {WAY_OUT}")
    return value
