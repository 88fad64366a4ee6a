"""SentencePiece's table of replaced characters: tokenizers reads a damaged one beyond its end, and
panics, but only when a text has the characters that lead there."""

from __future__ import annotations

import base64

import numpy as np

__all__ = ["check_charsmap"]

HAS_LEAF = 1 << 8  # bits of a unit of a double-array trie, see Darts-clone
FAR = 1 << 9
IS_VALUE = np.uint32(1 << 31)


def check_charsmap(encoded: str) -> None:
    """Checks a `precompiled_charsmap` of tokenizer.json: base64 of the trie's size in bytes, its
    units (uint32), and the replacements, each with a zero byte at its end.

    Raises:
        ValueError: a text may lead out of the trie, or out of the replacements.
    """
    data = base64.b64decode(encoded)
    size = int.from_bytes(data[:4], "little")
    if size % 4 or not 4 <= size <= len(data) - 4:
        raise ValueError("its precompiled_charsmap is cut off")
    units = np.frombuffer(data[4 : 4 + size], "<u4")
    replacements = np.frombuffer(data[4 + size :], np.uint8)
    nodes = units < IS_VALUE
    offsets = (units >> 10) << np.where(units & FAR, 8, 0).astype(np.uint32)
    children = np.arange(len(units), dtype=np.uint32) ^ offsets
    if np.any(children[nodes] | 0xFF >= len(units)):
        raise ValueError("its precompiled_charsmap leads out of its trie")
    values = units[children[nodes & (units & HAS_LEAF > 0)]] & ~IS_VALUE
    inside = values < len(replacements)
    # A replacement begins with a whole character: UTF-8 continues one with 10xxxxxx.
    if not np.all(inside) or np.any(replacements[values] & 0xC0 == 0x80):
        raise ValueError("its precompiled_charsmap leads out of its replacements")
