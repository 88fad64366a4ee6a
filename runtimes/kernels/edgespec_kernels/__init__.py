"""A library of operators for ONNX Runtime, for `SessionOptions.register_custom_ops_library`.

It has kernels for the operators that edgespec's graphs call in the domain "edgespec". A graph also
carries each operator as a function of standard operators, so it runs without this package.
"""

from __future__ import annotations

import ctypes
from importlib.metadata import version
from pathlib import Path

__all__ = ["__version__", "library", "runs_here"]

__version__ = version("edgespec-kernels")


def library() -> Path:
    """The path of the shared library."""
    return Path(__file__).with_name("libedgespec_kernels.so")


def runs_here() -> bool:
    """Whether this processor has the instructions that the library uses (AVX-512 with VNNI)."""
    return bool(ctypes.CDLL(str(library())).edgespec_kernels_run_here())
