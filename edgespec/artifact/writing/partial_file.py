"""The empty file that a writer fills before it takes another's name; two writers have two."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

if sys.platform != "win32":
    import fcntl

__all__ = ["USUAL", "partial_file", "partial_name"]

USUAL = 0o666  # the mode of a new file, before the process's mask
TRIES = 10  # of a name that other writers take and leave meanwhile


def partial_name(final: Path) -> Path:
    """Where the only writer of a file writes. What one that was killed had begun lies there, too,
    until the next writer removes it."""
    return final.with_name(f".{final.name}.partial")


@contextmanager
def partial_file(final: Path, mode: int = USUAL) -> Iterator[Path]:
    """An empty file next to `final` that no other writer has while the block runs; the block gives
    it another name. After an error it is removed.

    The writer holds a lock on it, so that another one sees that it is no rest of a killed one's,
    and writes to a file of its own. Windows lets nobody remove an open file: there is no lock, and
    of two writers at once one gets an error.

    Raises:
        OSError: it cannot be made.
    """
    path, lock = _made(final, mode)
    try:
        yield path
    except Exception:
        with suppress(OSError):
            path.unlink(missing_ok=True)
        raise
    finally:
        if lock is not None:
            os.close(lock)


def _made(final: Path, mode: int) -> tuple[Path, int | None]:
    """The file, and the descriptor that has it locked, if one has to."""
    usual = partial_name(final)
    if sys.platform != "win32":
        for _ in range(TRIES):
            lock = _locked(usual, mode)
            if lock is not None:
                return usual, lock
            if _is_written(usual):
                usual = final.with_name(
                    f".{final.name}.{os.getpid()}-{threading.get_ident()}.partial"
                )
                break
    usual.unlink(missing_ok=True)
    usual.touch(mode)
    return usual, None


if sys.platform != "win32":

    def _locked(path: Path, mode: int) -> int | None:
        """A locked descriptor of a new file; None where something has the name."""
        try:
            made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        except FileExistsError:
            return None
        if _lock(made) and _has_name(made, path):
            return made
        os.close(made)  # before the lock another writer took it for a killed one's
        return None

    def _is_written(path: Path) -> bool:
        """Whether another writer has the file; what none has is removed."""
        try:
            found = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return False
        except OSError:  # a link, a pipe, or another user's
            path.unlink(missing_ok=True)
            return False
        try:
            if not _lock(found):
                return True
            if _has_name(found, path):
                path.unlink()
            return False
        finally:
            os.close(found)

    def _lock(descriptor: int) -> bool:
        """Whether nobody else has it locked. Some network drives have no locks."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True

    def _has_name(descriptor: int, path: Path) -> bool:
        with suppress(FileNotFoundError):
            return os.path.samestat(os.fstat(descriptor), path.lstat())
        return False
