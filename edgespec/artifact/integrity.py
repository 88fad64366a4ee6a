"""The files of an exported folder: recorded in its manifest, and compared with what is there."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from edgespec.errors import EdgespecError, shortened

__all__ = ["FileRecord", "check_file", "check_weights", "record"]


@dataclass(frozen=True)
class FileRecord:
    """What a manifest says of a file.

    Attributes:
        bytes: its size.
        sha256: its digest, in hexadecimal digits.
    """

    bytes: int
    sha256: str


def record(path: Path) -> FileRecord:
    """The record of a file as it is now."""
    return FileRecord(path.stat().st_size, _digest(path))


def check_file(folder: Path, name: str, recorded: FileRecord) -> None:
    """Compares a file with its record: graphs and tables by content, weights by size.

    Args:
        name: relative to the folder, as in the manifest.

    Raises:
        EdgespecError: it would be outside the folder, is missing, cut short or another file.
    """
    parts = PurePosixPath(name)
    path = folder / parts
    if parts.is_absolute() or ".." in parts.parts or "\\" in name or ":" in name:
        raise EdgespecError(
            f"the manifest of {folder} names {shortened(name)}, which leaves the folder; refused"
        )
    if not path.is_file():
        raise EdgespecError(f"{path} is missing; export the pair again")
    size = path.stat().st_size
    if size != recorded.bytes:
        raise EdgespecError(
            f"{path} has {size} bytes where the manifest says {recorded.bytes}; "
            "it is damaged or half-copied: copy or export the pair again"
        )
    if _is_small(name):
        _check_digest(path, recorded)


def check_weights(folder: Path, files: Mapping[str, FileRecord]) -> None:
    """Compares the content of the weights, which takes about as long as loading them.

    Args:
        files: `Manifest.files`; the others are compared by `check_file`.

    Raises:
        EdgespecError: a file is not the one that was exported.
    """
    for name, recorded in files.items():
        if not _is_small(name):
            _check_digest(folder / name, recorded)


def _is_small(name: str) -> bool:
    """A graph or a table, which is read whole anyway."""
    return name.endswith((".onnx", ".json"))


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check_digest(path: Path, recorded: FileRecord) -> None:
    if recorded.sha256 != _digest(path):
        raise EdgespecError(f"{path} is not the file that was exported; copy or export it again")
