"""What PyInstaller needs to know to put edgespec into a program; it asks by itself.

Most modules are imported where they are first used, by their names, and the kernels are libraries
beside a package: PyInstaller's reading of the code finds neither.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["hook_dirs"]


def hook_dirs() -> list[str]:
    """The folder of the hooks."""
    return [str(Path(__file__).parent)]
