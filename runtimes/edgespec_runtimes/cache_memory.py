"""Memory for keys and values, of which most may never be written."""

from __future__ import annotations

import mmap
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["lazy_zeros"]


def lazy_zeros(shape: tuple[int, ...], dtype: Any) -> npt.NDArray[Any]:
    """Zeros that take memory page by page, as they are written.

    Pages of 4 KB: numpy asks for those of 2 MB, and the first position of each head would fill one.
    For SmolLM2 that was 240 MB and up to half a second before the first token.

    Raises:
        OSError, OverflowError, ValueError: there is no such memory.
    """
    count = prod(shape)
    flags = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
    memory = mmap.mmap(-1, max(1, count * np.dtype(dtype).itemsize), **flags)
    return np.frombuffer(memory, dtype, count).reshape(shape)
