"""Rust's reports of panics: they reach the caller as errors, so standard error needs none."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Lock
from typing import IO

__all__ = ["is_panic", "quiet_panics"]

STANDARD_ERROR = 2  # of the process: Rust does not know Python's sys.stderr
_turn = Lock()  # two at once would give each other's file back


@contextmanager
def quiet_panics() -> Iterator[None]:
    """Keeps what the block writes to the process's standard error until it ends, and drops it where
    the block panicked. Only for work that takes moments: other threads' lines wait as well."""
    with _turn:
        try:
            real = os.dup(STANDARD_ERROR)
        except OSError:  # closed: nothing would be written
            yield
            return
        with os.fdopen(real, "wb", buffering=0) as stream:
            kept = _kept()
            if kept is None:
                yield
                return
            with kept:
                os.dup2(kept.fileno(), STANDARD_ERROR)
                panicked = False
                try:
                    yield
                except BaseException as error:
                    panicked = is_panic(error)
                    raise
                finally:
                    os.dup2(stream.fileno(), STANDARD_ERROR)
                    kept.seek(0)
                    if not panicked and (written := kept.read()):
                        with suppress(OSError):  # a full disk, a reader that is gone
                            stream.write(written)


def _kept() -> IO[bytes] | None:
    """A file without a name; None where the disk is full or read-only, and so nothing is kept."""
    with suppress(AttributeError, OSError):  # Linux alone has files in memory
        return os.fdopen(os.memfd_create("edgespec"), "w+b")
    with suppress(OSError):
        return tempfile.TemporaryFile()
    return None


def is_panic(error: BaseException) -> bool:
    """Whether it is Rust's panic, which is no `Exception`."""
    return type(error).__name__ == "PanicException"
