"""A library of operators for ONNX Runtime, for `SessionOptions.register_custom_ops_library`.

It has kernels for the operators that edgespec's graphs call in the domain "edgespec". A graph also
carries each operator as a function of standard operators, so it runs without this package.

The library is built for several instruction sets ("targets") and chooses when it is loaded. All
give the same bits. The environment variable `EDGESPEC_KERNELS` forces one by its name.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path

__all__ = ["__version__", "library", "problem", "target"]

__version__ = version("edgespec-kernels")


def library() -> Path:
    """The path of the shared library."""
    name = "edgespec_kernels.dll" if sys.platform == "win32" else "libedgespec_kernels.so"
    return Path(__file__).with_name(name)


def target() -> str | None:
    """The instruction set in use: avx512, avxvnni, avx2, i8mm or neon; None if `problem` has one."""
    return _text(_library().edgespec_kernels_target())


def problem() -> str | None:
    """Why no kernels run here, in one line; None if they do."""
    return _text(_library().edgespec_kernels_problem())


@cache
def _library() -> ctypes.CDLL:
    loaded = ctypes.CDLL(str(library()))
    for function in (loaded.edgespec_kernels_target, loaded.edgespec_kernels_problem):
        function.restype = ctypes.c_char_p
    return loaded


def _text(answer: bytes | None) -> str | None:
    return None if answer is None else answer.decode()
