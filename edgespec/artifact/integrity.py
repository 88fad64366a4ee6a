"""The files of an exported folder: recorded in its manifest, and compared with what is there."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from edgespec.errors import EdgespecError, shortened

__all__ = ["check_file", "check_weights", "record"]


def record(path: Path) -> dict[str, Any]:
    """What a manifest keeps of a file: its size and digest."""
    return {"bytes": path.stat().st_size, "sha256": _digest(path)}


def check_file(folder: Path, name: str, recorded: Mapping[str, Any]) -> None:
    """Graphs and tables by their content, weights by their size.

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
    if size != recorded.get("bytes"):
        raise EdgespecError(
            f"{path} has {size} bytes where the manifest says {recorded.get('bytes')}; "
            "it is damaged or half-copied: copy or export the pair again"
        )
    if _is_small(name) and "sha256" in recorded:
        _check_digest(path, recorded)


def check_weights(folder: Path, files: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Reads what `check_file` does not: weights, which takes about as long as loading them.

    Args:
        files: `Manifest.files`.

    Returns:
        Those that have no digest: of an earlier export.

    Raises:
        EdgespecError: a file is not the one that was exported.
    """
    weights = {name: recorded for name, recorded in files.items() if not _is_small(name)}
    for name, recorded in weights.items():
        if "sha256" in recorded:
            _check_digest(folder / name, recorded)
    return [name for name, recorded in weights.items() if "sha256" not in recorded]


def _is_small(name: str) -> bool:
    """A graph or a table, which is read whole anyway."""
    return name.endswith((".onnx", ".json"))


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check_digest(path: Path, recorded: Mapping[str, Any]) -> None:
    if recorded["sha256"] != _digest(path):
        raise EdgespecError(f"{path} is not the file that was exported; copy or export it again")
