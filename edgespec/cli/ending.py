"""Signals that end the program, also while modules are loading."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["ending_at_sigterm", "interrupt"]


def interrupt(_: int, frame: FrameType | None) -> None:
    """Raises KeyboardInterrupt; in the middle of an import it ends the process instead."""
    if _imports(frame):
        os.write(2, b"\nedgespec: interrupted\n")
        os._exit(130)
    raise KeyboardInterrupt


@contextmanager
def ending_at_sigterm() -> Iterator[None]:
    """While the block runs, SIGTERM ends the program as a whole, with exit code 0: what the block
    has begun is tidied up. The first process of a container would else not end at all."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _end(_: int, frame: FrameType | None) -> None:
    if _imports(frame):
        os._exit(0)
    sys.exit(0)


def _imports(frame: FrameType | None) -> bool:
    """Whether a module is being imported. Commands import numpy and onnxruntime when they need
    them; their C code replaces an exception by an ImportError, which would be a traceback."""
    while frame is not None:
        if frame.f_globals.get("__name__") == "importlib._bootstrap":
            return True
        frame = frame.f_back
    return False
