"""A folder that is written whole or not at all."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from edgespec.artifact.atomic_file import keep_owner_and_mode
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
    """Gives a temporary folder next to `folder`, and renames it when the block succeeds.

    Until then `folder` is unchanged. If it exists and holds the file `mark`, it is replaced where
    `replace` is true; a folder without that file is never replaced. A link to a folder stays a
    link; owner and mode stay those of the folder that is replaced. After an error the temporary
    folder is removed. After an interruption (Ctrl-C, a kill) it stays, and the next block with the
    same `recipe` continues in it.

    Args:
        recipe: everything that the content is made from, as text.
        mark: the file that such a folder holds.
        what: what such a folder is, for messages.

    Raises:
        UsageError: `folder` exists and must not be replaced, or another process is writing it.
        EdgespecError: the disk is full or cannot be written.
    """
    final = folder.resolve()
    aside = final.parent / f".{final.name}.partial"
    note = final.parent / f".{final.name}.recipe"
    old = final.parent / f".{final.name}.replaced"
    _check_place(folder)
    with _alone(folder, final):
        _bring_back(old, final)  # a machine that stopped between the two renames left it there
        check_free(folder, replace=replace, mark=mark, what=what)
        try:
            if not (aside.is_dir() and _text(note) == recipe):
                shutil.rmtree(aside, ignore_errors=True)
                aside.mkdir(parents=True)
                if final.exists():
                    aside.chmod(stat.S_IMODE(final.stat().st_mode) | stat.S_IRWXU)
                note.write_text(recipe, encoding="utf-8")
            yield aside
            _sync(aside)
            shutil.rmtree(old, ignore_errors=True)
            if final.exists():
                keep_owner_and_mode(final, aside)
                final.rename(old)
            aside.rename(final)
            note.unlink()
            shutil.rmtree(old, ignore_errors=True)
        except OSError as error:
            _remove(aside, note)
            raise _unwritable(folder, error) from None
        except Exception:
            _remove(aside, note)
            raise
        finally:
            _bring_back(old, final)


@contextmanager
def _alone(folder: Path, final: Path) -> Iterator[None]:
    """Locks the folder: each of two processes would take the other's files for its own."""
    from filelock import FileLock, Timeout  # the extra `export` has it; a device writes nothing

    lock = FileLock(final.parent / f".{final.name}.lock")
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
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
    return EdgespecError(f"{folder} could not be written: {reason}; nothing was written there")


def _sync(folder: Path) -> None:
    """Waits until the disk has every file: after a crash a name may exist without its bytes."""
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


def _bring_back(old: Path, final: Path) -> None:
    if old.exists() and not final.exists():
        old.rename(final)


def check_free(
    folder: Path, *, replace: bool, mark: str = MANIFEST, what: str = "an exported pair"
) -> None:
    """Raises UsageError if `staged` with these arguments would refuse to write `folder`."""
    _check_place(folder)
    if Path.cwd().is_relative_to(folder.resolve()):  # it would be pulled away under the shell
        raise UsageError(f"{folder} is the folder you are in; give another -o DIR")
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not (folder / mark).is_file():
        raise UsageError(f"{folder} exists and is not {what}; choose another -o DIR")
    if not replace:
        raise UsageError(f"{folder} holds {what} already; replace it with --force")


def _check_place(folder: Path) -> None:
    """Raises UsageError where no folder can get its name at the end of a long run."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is no folder; choose another -o DIR")
    if os.path.ismount(folder):
        raise UsageError(
            f"{folder} is where a volume is mounted, and cannot be replaced; give a folder in it: "
            f"-o {folder / 'pair'}"
        )


def stamps(checkpoint: Path) -> list[tuple[str, int, int]]:
    """The path, size and time of every file of a checkpoint (a folder or a file), for a recipe.

    Hidden files are left out: a run that writes into the folder leaves its notes there.
    """
    files = sorted(checkpoint.iterdir()) if checkpoint.is_dir() else [checkpoint]
    return [
        (str(file.resolve()), file.stat().st_size, file.stat().st_mtime_ns)
        for file in files
        if file.is_file() and not file.name.startswith(".")
    ]
