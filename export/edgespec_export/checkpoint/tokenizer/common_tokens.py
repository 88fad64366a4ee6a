"""The tokens that two different tokenizers have in common, by the bytes that they spell."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from tokenizers import Tokenizer

from edgespec.errors import shortened

__all__ = ["CommonTokens", "NoCommonTokensError", "common_tokens"]

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # SentencePiece's


class NoCommonTokensError(ValueError):
    """Why two tokenizers have no tokens in common."""


@dataclass(frozen=True)
class CommonTokens:
    """The arguments of `edgespec.drafters.token_intersection.TokenIntersection`."""

    common: tuple[list[int], list[int]]
    spellings: list[list[int]]
    begin: list[int]

    def to_json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))


@dataclass(frozen=True)
class _Side:
    """One of the two tokenizers.

    Attributes:
        ends: tokens that end a text.
        role: "target" or "draft".
    """

    tokenizer: Tokenizer
    ends: Sequence[int]
    role: str

    @cached_property
    def begin(self) -> list[int]:
        """What the tokenizer puts before a text."""
        ids = self.tokenizer.encode("").ids
        return [token for token in ids if token not in self.ends]

    @cached_property
    def special(self) -> dict[int, str]:
        """Special tokens and those around a text: they spell nothing, and have a role."""
        added = self.tokenizer.get_added_tokens_decoder()
        found = {index: token.content for index, token in added.items() if token.special}
        return found | {token: self._name(token) for token in (*self.begin, *self.ends)}

    @cached_property
    def bytes_of(self) -> dict[int, bytes]:
        """The bytes that each ordinary token spells."""
        whole = json.loads(self.tokenizer.to_str())
        added = {token["id"]: token["content"].encode() for token in whole["added_tokens"]}
        spelled = _byte_alphabet if _has_byte_alphabet(whole, self.role) else _piece
        vocabulary = self.tokenizer.get_vocab(with_added_tokens=False)
        found = {index: spelled(name) for name, index in vocabulary.items()} | added
        return {index: text for index, text in found.items() if index not in self.special and text}

    @cached_property
    def by_bytes(self) -> dict[bytes, int]:
        """A token for each text; a byte's own token (`<0x41>`) only where no other spells it."""
        names = {token: self._name(token) for token in self.bytes_of}
        order = sorted(names, key=lambda token: (bool(_BYTE_TOKEN.fullmatch(names[token])), token))
        found: dict[bytes, int] = {}
        for token in order:
            found.setdefault(self.bytes_of[token], token)
        return found

    def _name(self, token: int) -> str:
        return self.tokenizer.id_to_token(token) or ""


def common_tokens(
    target: Tokenizer,
    draft: Tokenizer,
    *,
    ends: tuple[Sequence[int], Sequence[int]],
    sizes: tuple[int, int],
) -> CommonTokens:
    """What a draft with another tokenizer can propose, and how it reads the target's tokens.

    Common are ordinary tokens that spell the same bytes, special tokens with the same content, and
    the first tokens that end, and that begin, a text.

    Args:
        ends: tokens that end a text, of target and draft.
        sizes: columns of the models' logits. Models may have more than tokens, or fewer.

    Raises:
        NoCommonTokensError: a tokenizer is of an unknown kind, or they have no token in common.
    """
    ours, theirs = _Side(target, ends[0], "target"), _Side(draft, ends[1], "draft")
    pairs = {
        token: other
        for token, other in _pairs(ours, theirs).items()
        if token < sizes[0] and other < sizes[1]
    }
    if not any(token in ours.bytes_of for token in pairs):
        raise NoCommonTokensError("they have no token in common")
    spellings = _Spellings(theirs, sizes[1])
    return CommonTokens(
        (sorted(pairs), [pairs[token] for token in sorted(pairs)]),
        [
            [pairs[token]]
            if token in pairs
            else spellings.of(ours.bytes_of.get(token, ours.special.get(token, "").encode()))
            for token in range(sizes[0])
        ],
        [] if ours.begin else theirs.begin,
    )


def _pairs(ours: _Side, theirs: _Side) -> dict[int, int]:
    """Common tokens, the target's to the draft's; each draft token once."""
    contents = {content: token for token, content in theirs.special.items()}
    roles = [
        *zip(ours.begin[:1], theirs.begin[:1], strict=False),
        *zip(ours.ends[:1], theirs.ends[:1], strict=False),
    ]
    equal = [
        (token, contents[content]) for token, content in ours.special.items() if content in contents
    ]
    spelled = [
        (token, theirs.by_bytes[text])
        for text, token in ours.by_bytes.items()
        if text in theirs.by_bytes
    ]
    pairs: dict[int, int] = {}
    taken: set[int] = set()
    for token, other in [*roles, *equal, *spelled]:
        if token not in pairs and other not in taken:
            pairs[token] = other
            taken.add(other)
    return pairs


class _Spellings:
    """Spells bytes with a draft's tokens."""

    def __init__(self, draft: _Side, size: int) -> None:
        self._draft = draft
        self._size = size
        self._longest = max(map(len, draft.by_bytes))

    def of(self, text: bytes) -> list[int]:
        """The draft's own tokens of the text; where those spell another text, the longest tokens
        that do; where there are none, the first tokens, or the first of all: the draft cannot read
        this one."""
        encoded = self._encoded(text)
        if b"".join(self._draft.bytes_of.get(token, b"\0") for token in encoded) == text:
            return encoded or [0]
        return self._greedy(text) or encoded or [0]

    def _encoded(self, text: bytes) -> list[int]:
        try:
            ids = self._draft.tokenizer.encode(text.decode(), add_special_tokens=False).ids
        except UnicodeDecodeError:
            return []
        return [token for token in ids if token < self._size]

    def _greedy(self, text: bytes) -> list[int]:
        tokens: list[int] = []
        while text:
            lengths = range(min(self._longest, len(text)), 0, -1)
            fits = (self._draft.by_bytes.get(text[:length]) for length in lengths)
            token = next((token for token in fits if token is not None), self._size)
            if token >= self._size:
                return []
            tokens.append(token)
            text = text[len(self._draft.bytes_of[token]) :]
        return tokens


def _has_byte_alphabet(tokenizer: Mapping[str, Any], role: str) -> bool:
    """Whether token names are bytes in GPT-2's alphabet; else they are text with "▁" for spaces."""
    decoder = tokenizer.get("decoder") or {}
    kinds = {part["type"] for part in decoder.get("decoders", [decoder]) if part}
    if "ByteLevel" in kinds:
        return True
    if kinds & {"Metaspace", "ByteFallback", "Replace"}:
        return False
    kind = ", ".join(sorted(kinds)) or "none"
    raise NoCommonTokensError(f"the {role}'s is of a kind that is not known ({shortened(kind)})")


def _alphabet() -> dict[str, int]:
    """Character to byte, as in GPT-2: printable bytes are themselves, others follow from 256 on."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {
        chr(256 + index): byte for index, byte in enumerate(others)
    }


_BYTES = _alphabet()


def _byte_alphabet(name: str) -> bytes:
    return bytes(_BYTES[character] for character in name if character in _BYTES)


def _piece(name: str) -> bytes:
    byte = _BYTE_TOKEN.fullmatch(name)
    return bytes([int(byte[1], 16)]) if byte else name.replace(_SPACE, " ").encode()
