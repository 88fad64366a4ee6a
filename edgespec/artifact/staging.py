"""A folder that appears whole or not at all."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from edgespec.artifact.manifest import MANIFEST
from edgespec.errors import EdgespecError, UsageError

__all__ = ["check_free", "staged", "stamps"]


@contextmanager
def staged(
    folder: Path,
    *,
    replace: bool,
    recipe: str,
    mark: str = MANIFEST,
    what: str = "an exported pair",
) -> Iterator[Path]:
    """Gives a folder beside `folder` to write into, and renames it when the block succeeds.

    Whatever interrupts the block, `folder` is as it was. If it is there already and holds the file
    `mark`, so that it is `what` it should become, it is replaced if `replace` says so; anything
    else never is. After an error nothing is kept; after an interruption (Ctrl-C, a kill) what was
    written stays aside, and the next block with the same `recipe` finds it there.

    Raises:
        UsageError: `folder` exists and must not be replaced, or another process is writing it.
        EdgespecError: the disk is full or cannot be written.
    """
    place = folder.resolve()
    aside = place.parent / f".{place.name}.partial"
    note = place.parent / f".{place.name}.recipe"
    old = place.parent / f".{place.name}.replaced"
    with _alone(folder, place):
        _bring_back(old, place)  # a machine that stopped between the two renames left it there
        check_free(folder, replace=replace, mark=mark, what=what)
        try:
            if not (aside.is_dir() and _text(note) == recipe):
                shutil.rmtree(aside, ignore_errors=True)
                aside.mkdir(parents=True)
                note.write_text(recipe, encoding="utf-8")
            yield aside
            _settle(aside)
            shutil.rmtree(old, ignore_errors=True)
            if place.exists():
                place.rename(old)
            aside.rename(place)
            note.unlink()
            shutil.rmtree(old, ignore_errors=True)
        except OSError as error:
            _remove(aside, note)
            raise _unwritable(folder, error) from None
        except Exception:
            _remove(aside, note)
            raise
        finally:
            _bring_back(old, place)


@contextmanager
def _alone(folder: Path, place: Path) -> Iterator[None]:
    """Two that write one folder would take each other's files for their own."""
    from filelock import FileLock, Timeout  # the extra `export` has it; a device writes nothing

    lock = FileLock(place.parent / f".{place.name}.lock")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout:
        raise UsageError(
            f"another process is writing {folder}; wait until it has ended, or give another -o DIR"
        ) from None
    except OSError as error:
        raise _unwritable(folder, error) from None
    try:
        yield
    finally:
        with suppress(OSError):
            Path(lock.lock_file).unlink()
        lock.release()


def _unwritable(folder: Path, error: OSError) -> EdgespecError:
    reason = "the disk is full" if error.errno == errno.ENOSPC else str(error)
    return EdgespecError(f"{folder} could not be written: {reason}; nothing was kept")


def _settle(folder: Path) -> None:
    """Waits until the disk has every file: a name may outlive a crash that its bytes do not."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb+") as file:
                os.fsync(file.fileno())


def _remove(aside: Path, note: Path) -> None:
    shutil.rmtree(aside, ignore_errors=True)
    with suppress(OSError):
        note.unlink()


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _bring_back(old: Path, place: Path) -> None:
    if old.exists() and not place.exists():
        old.rename(place)


def check_free(
    folder: Path, *, replace: bool, mark: str = MANIFEST, what: str = "an exported pair"
) -> None:
    """Raises UsageError if `staged` with these arguments would refuse to write `folder`."""
    if Path.cwd().is_relative_to(folder.resolve()):  # it would be pulled away under the shell
        raise UsageError(f"{folder} is the folder you are in; give -o DIR a folder of its own")
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not (folder / mark).is_file():
        raise UsageError(f"{folder} exists and is not {what}; choose another -o DIR")
    if not replace:
        raise UsageError(f"{folder} holds {what} already; replace it with --force")


def stamps(checkpoint: Path) -> list[tuple[str, int, int]]:
    """For a recipe: the path, size and time of every file of a checkpoint, a folder or a file.

    Hidden files are none of it: a run that writes into the folder leaves its notes there.
    """
    files = sorted(checkpoint.iterdir()) if checkpoint.is_dir() else [checkpoint]
    return [
        (str(file.resolve()), file.stat().st_size, file.stat().st_mtime_ns)
        for file in files
        if file.is_file() and not file.name.startswith(".")
    ]
