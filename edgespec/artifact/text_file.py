"""Texts that a user gives in a file."""

from __future__ import annotations

from pathlib import Path

from edgespec.errors import UsageError

__all__ = ["read_lines", "read_text"]


def read_text(path: Path) -> str:
    """Raises UsageError if the file cannot be read or is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8-sig")  # some editors begin a file with a mark
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8 text") from None


def read_lines(path: Path) -> list[str]:
    """The lines that are not blank; raises UsageError if there is none."""
    lines = [line for line in read_text(path).splitlines() if line.strip()]
    if not lines:
        raise UsageError(f"{path} has no text; give one text a line")
    return lines
