"""What to say when a checkpoint lacks a tensor."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path

from edgespec.errors import EdgespecError

__all__ = ["missing_tensor"]


def missing_tensor(where: Path, name: str, names: Iterable[str]) -> EdgespecError:
    """The error for a tensor that is not in `where`, with the closest names that are."""
    close = difflib.get_close_matches(name, list(names), n=3, cutoff=0.6)
    hint = f"close: {', '.join(close)}" if close else "no name comes close"
    return EdgespecError(f"{where}: has no tensor {name!r} ({hint})")
