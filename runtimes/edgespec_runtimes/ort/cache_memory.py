"""Memory for keys and values, of which most may never be written."""

from __future__ import annotations

import mmap
import platform
import sys
from collections.abc import Sequence
from itertools import groupby
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from edgespec.artifact.graph_io import Buffer

__all__ = ["cache_memory", "lazy_zeros"]

# Python has a name for it from 3.13 on; the number is Linux's on these processors.
ON_LINUX = sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64", "riscv64")
UNRESERVED: int = getattr(mmap, "MAP_NORESERVE", 0x4000 if ON_LINUX else 0)


def cache_memory(
    buffers: Sequence[Buffer], shape: tuple[int, ...]
) -> tuple[list[npt.NDArray[Any]], dict[Buffer, npt.NDArray[Any]]]:
    """Arrays [*shape, width] for a model's cache, and the blocks that these are parts of: equal
    buffers lie behind each other, [buffers, *shape, width].

    Raises:
        OSError, OverflowError, ValueError: there is no such memory.
    """

    def kind(buffer: Buffer) -> tuple[int, str]:
        return buffer.width, buffer.dtype

    blocks = []
    arrays: dict[Buffer, npt.NDArray[Any]] = {}
    for (width, dtype), alike in groupby(sorted(buffers, key=kind), kind):
        same = list(alike)
        block = lazy_zeros((len(same), *shape, width), dtype)
        blocks.append(block)
        arrays |= dict(zip(same, block, strict=True))
    return blocks, arrays


def lazy_zeros(shape: tuple[int, ...], dtype: Any) -> npt.NDArray[Any]:
    """Zeros that take memory page by page, as they are written.

    Pages of 4 KB: numpy asks for those of 2 MB, and the first position of each head would fill one.
    For SmolLM2 that was 240 MB and up to half a second before the first token.

    Raises:
        OSError, OverflowError, ValueError: there is no such memory.
    """
    count = prod(shape)
    flags = {}
    if hasattr(mmap, "MAP_PRIVATE"):
        # Linux else refuses what is larger than its memory, although little of it may be written.
        flags["flags"] = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | UNRESERVED
    memory = mmap.mmap(-1, max(1, count * np.dtype(dtype).itemsize), **flags)
    return np.frombuffer(memory, dtype, count).reshape(shape)
