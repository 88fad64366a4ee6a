"""Where edgespec keeps what it makes for a user."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["home"]


def home() -> Path:
    """$EDGESPEC_HOME; else $XDG_CACHE_HOME/edgespec; else ~/.cache/edgespec."""
    own = os.environ.get("EDGESPEC_HOME")
    if own:
        return Path(own).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "edgespec"
