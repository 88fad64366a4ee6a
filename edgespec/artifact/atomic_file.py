"""A file that is written whole or not at all."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from edgespec.artifact.writing.partial_file import USUAL, partial_file, partial_name

__all__ = ["keep_owner_and_mode", "named_errors", "remove_whole", "whole_file"]

PRIVATE = 0o600  # until the mode of the file that is replaced is known to hold


@contextmanager
def whole_file(file: Path, like: Path | None = None, mode: int = USUAL) -> Iterator[Path]:
    """Gives an empty temporary file next to `file`, which takes its name when the block succeeds.
    Of writers at once, in any processes, the last one's content stays.

    A link stays a link: the file that it points to is replaced. Owner and mode stay those of the
    file that is replaced. After an error the temporary file is removed: a full disk leaves no part
    that the next run would read, or that takes room.

    Args:
        like: the file whose owner and mode a new file takes over, if that one exists.
        mode: of a new file otherwise.

    Raises:
        OSError: it cannot be written, or a pipe, a device or a folder has the name. It names
            `file`, never the temporary one.
    """
    final = Path(os.path.realpath(file))
    if final.exists() and not final.is_file():
        raise OSError(errno.EEXIST, "it is no ordinary file", str(file))
    model = final if like is None or final.exists() else like
    aside = partial_name(final)
    try:
        with named_errors(file), partial_file(final, PRIVATE if model.is_file() else mode) as aside:
            yield aside
            if model.is_file():
                keep_owner_and_mode(model, aside)
            _rename(aside, final)
    except Exception as error:
        if isinstance(error, OSError) and str(error.filename) == str(aside):
            error.filename = str(file)
        raise


def remove_whole(file: Path) -> None:
    """Removes a file, if it is there, and what a writer of it that was killed had begun.

    Raises:
        OSError: it cannot be removed.
    """
    partial_name(file).unlink(missing_ok=True)
    file.unlink(missing_ok=True)


@contextmanager
def named_errors(file: Path) -> Iterator[None]:
    """Lets an OSError of the block name `file` if it names nothing: that of a write on a full disk
    does not say where it was."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(file)
        raise


def keep_owner_and_mode(old: Path, new: Path) -> None:
    """Gives a file or a folder the owner (where this process may), the mode and the extended
    attributes of the one that it replaces."""
    if hasattr(os, "chown"):
        owner = old.stat()
        with suppress(OSError):  # only root may give a file away
            os.chown(new, owner.st_uid, owner.st_gid)
    shutil.copystat(old, new)
    os.utime(new)  # the time is that of the new content


def _rename(aside: Path, final: Path) -> None:
    try:
        aside.replace(final)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        shutil.copyfile(aside, final)  # a file that is mounted into a container keeps its name
        aside.unlink()
