"""A library of operators for ONNX Runtime, to be given to `register_custom_ops_library`.

They are the operators that edgespec's graphs call, in the domain "edgespec". Each is a function in
the graph, too, so a graph runs without this package.
"""

from __future__ import annotations

import ctypes
from importlib.metadata import version
from pathlib import Path

__all__ = ["__version__", "library", "runs_here"]

__version__ = version("edgespec-kernels")


def library() -> Path:
    """The shared library."""
    return Path(__file__).with_name("libedgespec_kernels.so")


def runs_here() -> bool:
    """Whether this processor has the instructions it is made of (AVX-512 with VNNI)."""
    return bool(ctypes.CDLL(str(library())).edgespec_kernels_run_here())
