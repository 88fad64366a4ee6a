"""Where edgespec keeps what it makes for a user."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["home", "kept_home"]


def home() -> Path:
    """$EDGESPEC_HOME; else $XDG_CACHE_HOME/edgespec; else ~/.cache/edgespec."""
    own = os.environ.get("EDGESPEC_HOME")
    if own:
        return Path(own).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "edgespec"


def kept_home() -> Path:
    """Where what a user made himself is kept: $EDGESPEC_HOME; else $XDG_DATA_HOME/edgespec; else
    ~/.local/share/edgespec. The cache may be emptied at any time, and this must not."""
    own = os.environ.get("EDGESPEC_HOME")
    if own:
        return Path(own).expanduser()
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data).expanduser() / "edgespec"
