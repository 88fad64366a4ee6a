"""Memory for keys and values, most of which may never be written."""

from __future__ import annotations

import mmap
import platform
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from math import prod
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from edgespec.artifact.graph_io import Buffer
from edgespec.errors import UsageError

__all__ = ["CacheMemory", "allocate_cache", "lazy_zeros", "memory_errors"]

# `mmap.MAP_NORESERVE` exists from Python 3.13 on; 0x4000 is Linux's value on these processors.
ON_LINUX = sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64", "riscv64")
MAP_NORESERVE: int = getattr(mmap, "MAP_NORESERVE", 0x4000 if ON_LINUX else 0)

Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True)
class CacheMemory:
    """A model's cache: float32, float16 or int8 numbers.

    Attributes:
        arrays: one for each buffer, [1, heads, positions, width].
        blocks: the same memory, one array for all buffers of equal heads, width and type:
            [buffers, 1, heads, positions, width].
    """

    arrays: dict[Buffer, npt.NDArray[np.generic]]
    blocks: list[npt.NDArray[np.generic]]

    def copy_positions(self, source: int, destination: int, count: int) -> None:
        """Copies the keys and values of some positions over those of others."""
        for block in self.blocks:
            block[:, :, :, destination : destination + count] = block[
                :, :, :, source : source + count
            ]


def allocate_cache(buffers: Sequence[Buffer], positions: int) -> CacheMemory:
    """Zeros for a model's cache of so many positions.

    Raises:
        OSError, OverflowError, ValueError: there is not enough memory.
    """

    def kind(buffer: Buffer) -> tuple[int, int, str]:
        return buffer.heads, buffer.width, buffer.dtype

    memory = CacheMemory({}, [])
    for (heads, width, dtype), group in groupby(sorted(buffers, key=kind), kind):
        equal = list(group)
        block = lazy_zeros((len(equal), 1, heads, positions, width), np.dtype(dtype))
        memory.blocks.append(block)
        memory.arrays.update(zip(equal, block, strict=True))
    return memory


def lazy_zeros(
    shape: tuple[int, ...], dtype: type[Scalar] | np.dtype[Scalar]
) -> npt.NDArray[Scalar]:
    """Zeros that take memory page by page, as they are written.

    Pages of 4 KB: numpy asks for pages of 2 MB, and the first position of each head would fill one.
    For SmolLM2 that was 240 MB and up to half a second before the first token.

    Raises:
        OSError, OverflowError, ValueError: there is not enough memory.
    """
    count = prod(shape)
    flags = {}
    if hasattr(mmap, "MAP_PRIVATE"):
        # Without MAP_NORESERVE, Linux refuses a mapping that is larger than its memory.
        flags["flags"] = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
    memory = mmap.mmap(-1, max(1, count * np.dtype(dtype).itemsize), **flags)
    return np.frombuffer(memory, dtype, count).reshape(shape)


@contextmanager
def memory_errors(capacity: int) -> Iterator[None]:
    """Turns what allocating memory for `capacity` positions raises into a `UsageError`."""
    try:
        yield
    except (OSError, OverflowError, ValueError):  # more than there is or can be addressed
        raise UsageError(
            f"there is no memory for a cache of {capacity} positions; give less capacity"
        ) from None
