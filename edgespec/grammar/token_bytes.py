"""The bytes that each token of a vocabulary writes, from the tokenizer's own description."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgespec.errors import EdgespecError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["TokenBytes", "token_bytes", "token_writer"]

BYTE = re.compile("<0x([0-9A-Fa-f]{2})>")


@dataclass(frozen=True)
class TokenBytes:
    """What tokens write.

    Attributes:
        tokens: [vocabulary]; empty for a token that writes nothing, or not always the same.
        special: ids of special tokens; their bytes are their names, and no text.
        drops_first_space: a text's first character is dropped if it is a space.
    """

    tokens: list[bytes]
    special: frozenset[int]
    drops_first_space: bool


def token_bytes(tokenizer: Tokenizer, vocab_size: int) -> TokenBytes:
    """The bytes of the tokens 0 to `vocab_size` − 1.

    Each is compared with what the tokenizer decodes.

    Raises:
        EdgespecError: the tokenizer has a decoder of another kind.
    """
    parts = list(_decoders(json.loads(tokenizer.to_str())["decoder"]))
    write = _writer(parts)
    added = tokenizer.get_added_tokens_decoder()
    special = frozenset(token for token in added if added[token].special and token < vocab_size)
    tokens = []
    for token in range(vocab_size):
        name = tokenizer.id_to_token(token)
        if name is None:
            tokens.append(b"")
        else:
            tokens.append(name.encode() if token in added else write(name))
    drops = any(_drops_first_space(part) for part in parts)
    checked = _as_decoded(tokenizer, tokens, special)
    if not any(text for token, text in enumerate(checked) if token not in special):
        raise EdgespecError(
            "this model's tokenizer writes its tokens in a way that is not known here, so no "
            "grammar can be applied; generate without one"
        )
    return TokenBytes(checked, special, drops)


def token_writer(tokenizer: Tokenizer) -> Callable[[str], bytes] | None:
    """A function from a token's name to the bytes that it writes; None if the tokenizer has no
    decoder."""
    parts = list(_decoders(json.loads(tokenizer.to_str())["decoder"]))
    return _writer(parts) if parts else None


def _decoders(decoder: Mapping[str, Any] | None) -> Iterator[Mapping[str, Any]]:
    """The steps of a decoder."""
    if decoder is None:
        return
    if decoder["type"] == "Sequence":
        for part in decoder["decoders"]:
            yield from _decoders(part)
    else:
        yield decoder


def _writer(decoders: list[Mapping[str, Any]]) -> Callable[[str], bytes]:
    """A function from a token's name to its bytes."""
    kinds = {part["type"] for part in decoders}
    if "ByteLevel" in kinds:
        return _from_byte_level
    has_bytes = "ByteFallback" in kinds

    def written(name: str) -> bytes:
        if has_bytes and (byte := BYTE.fullmatch(name)):
            return bytes([int(byte[1], 16)])
        for part in decoders:
            name = _replaced(name, part)
        return name.encode()

    return written


def _replaced(text: str, decoder: Mapping[str, Any]) -> str:
    if decoder["type"] == "Metaspace":
        return text.replace(decoder["replacement"], " ")
    if decoder["type"] == "Replace" and "String" in decoder["pattern"]:
        return text.replace(decoder["pattern"]["String"], decoder["content"])
    return text


def _drops_first_space(decoder: Mapping[str, Any]) -> bool:
    if decoder["type"] == "Metaspace":
        return bool(decoder.get("prepend_scheme", "always") != "never")
    return bool(decoder["type"] == "Strip" and decoder["content"] == " " and decoder["start"] == 1)


def _from_byte_level(name: str) -> bytes:
    """GPT-2's names: a printable character for each byte."""
    if all(character in BYTE_OF for character in name):
        return bytes(BYTE_OF[character] for character in name)
    return name.encode()


def _byte_characters() -> dict[str, int]:
    """Bytes that are printable in Latin-1 are themselves; the others follow from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {
        **{chr(byte): byte for byte in printable},
        **{chr(256 + number): byte for number, byte in enumerate(others)},
    }


BYTE_OF = _byte_characters()


def _as_decoded(tokenizer: Tokenizer, tokens: list[bytes], special: frozenset[int]) -> list[bytes]:
    """The bytes of those tokens for which the tokenizer's decoder agrees, where it can be asked.

    After a first one, since a text's first space may be dropped. Parts of characters have no text
    of their own.
    """
    decoded = tokenizer.decode_batch(
        [[token, token] for token in range(len(tokens))], skip_special_tokens=False
    )
    checked = []
    for token, (written, twice) in enumerate(zip(tokens, decoded, strict=True)):
        try:
            text = written.decode()
        except UnicodeDecodeError:
            checked.append(written)
            continue
        agrees = twice in (text + text, (text + text).removeprefix(" "))
        checked.append(written if agrees or token in special else b"")
    return checked
