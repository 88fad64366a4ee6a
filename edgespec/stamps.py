"""What tells one checkpoint from another without reading its gigabytes."""

from __future__ import annotations

from pathlib import Path

__all__ = ["stamps"]


def stamps(checkpoint: Path) -> list[tuple[str, int, int]]:
    """The path, size and time of every file of a checkpoint: a folder, or a file.

    Hidden files are none of it: a run that writes into the folder leaves its notes there.
    """
    files = sorted(checkpoint.iterdir()) if checkpoint.is_dir() else [checkpoint]
    return [
        (str(file.resolve()), file.stat().st_size, file.stat().st_mtime_ns)
        for file in files
        if file.is_file() and not file.name.startswith(".")
    ]
