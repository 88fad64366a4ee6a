"""Flash attention of ONNX Runtime's processor, which is switched off on ARM64.

There its `GroupQueryAttention` gives a position other bits in calls with other numbers of rows, so
no target could verify. Without it all rows are equal (docs/decisions/0022-arm64.md).
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

__all__ = ["attention_setting", "row_invariant_attention"]

SWITCH = "ORT_GQA_DISABLE_FLASH_ATTENTION"  # read whenever a session is made
OFF = "1"
ARM64 = ("aarch64", "arm64")  # on Linux, and on macOS and Windows

_only_here = Lock()


@contextmanager
def row_invariant_attention() -> Iterator[None]:
    """Sessions that are made inside the block compute attention row by row.

    The variable belongs to the whole process, so it is set only for the block, by one thread at a
    time. A value that the user has set stays.
    """
    if not _on_arm64():
        yield
        return
    with _only_here:
        users = os.environ.get(SWITCH)
        os.environ[SWITCH] = OFF if users is None else users
        try:
            yield
        finally:
            if users is None:
                del os.environ[SWITCH]


def attention_setting() -> str:
    """What decides between kernels of attention, as part of a machine's record: the variable, or an
    empty string where it is not set."""
    value = os.environ.get(SWITCH, OFF if _on_arm64() else None)
    return "" if value is None else f"{SWITCH}={value}"


def _on_arm64() -> bool:
    return platform.machine().lower() in ARM64
