"""A folder that appears whole or not at all."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edgespec.contract import MANIFEST
from edgespec.errors import EdgespecError, UsageError

__all__ = ["staged"]


@contextmanager
def staged(folder: Path, *, replace: bool) -> Iterator[Path]:
    """Gives a folder beside `folder` to write into, and renames it when the block succeeds.

    Whatever interrupts the block, `folder` is as it was. An exported pair that is there already is
    replaced only if `replace` says so, and anything else never.

    Raises:
        UsageError: `folder` exists and must not be replaced.
        EdgespecError: the disk is full or cannot be written.
    """
    _check_free(folder, replace)
    aside = folder.with_name(f".{folder.name}.partial")
    old = folder.with_name(f".{folder.name}.replaced")
    try:
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        yield aside
        shutil.rmtree(old, ignore_errors=True)
        if folder.exists():
            folder.rename(old)
        aside.rename(folder)
    except OSError as error:
        reason = "the disk is full" if error.errno == errno.ENOSPC else str(error)
        raise EdgespecError(f"{folder} could not be written: {reason}; nothing was kept") from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def _check_free(folder: Path, replace: bool) -> None:
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not (folder / MANIFEST).is_file():
        raise UsageError(f"{folder} exists and is not an exported pair; choose another -o DIR")
    if not replace:
        raise UsageError(f"{folder} holds an exported pair already; replace it with --force")
