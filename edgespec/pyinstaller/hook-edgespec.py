"""Modules that edgespec imports by their names."""

from PyInstaller.utils.hooks import collect_submodules

__all__ = ["hiddenimports"]

hiddenimports = [
    *collect_submodules("edgespec", filter=lambda name: "pyinstaller" not in name),
    *collect_submodules("edgespec_runtimes"),
    "edgespec_kernels",
]
