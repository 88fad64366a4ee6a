"""Codes of few bits, packed into words of 32 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["unpacked"]


def unpacked(words: npt.NDArray[Any], bits: int) -> npt.NDArray[np.uint8]:
    """The codes in words [..., n] of 32 bits: [..., 32 · n // bits].

    The first code is in the lowest bits of the first word. Where `bits` does not divide 32, a code
    may begin in one word and end in the next.
    """
    data = np.ascontiguousarray(words).view(np.uint8)  # little-endian, like the files
    if bits == 8:
        return data
    if 8 % bits == 0:
        shifts = np.arange(0, 8, bits, dtype=np.uint8)
        codes = (data[..., None] >> shifts) & np.uint8(2**bits - 1)
        return codes.reshape(*data.shape[:-1], -1)
    stream = np.unpackbits(data, axis=-1, bitorder="little")
    count = stream.shape[-1] // bits
    each = stream[..., : count * bits].reshape(*data.shape[:-1], count, bits)
    return np.packbits(each, axis=-1, bitorder="little")[..., 0]
