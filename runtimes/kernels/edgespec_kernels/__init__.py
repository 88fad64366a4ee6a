"""A library of operators for ONNX Runtime, for `SessionOptions.register_custom_ops_library`.

It has kernels for the operators that edgespec's graphs call in the domain "edgespec". A graph also
carries each operator as a function of standard operators, so it runs without this package.

The library is built for several instruction sets ("targets") and chooses when it is loaded. All
give the same bits. The environment variable `EDGESPEC_KERNELS` forces one by its name.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from functools import cache
from importlib.metadata import files, version
from pathlib import Path

__all__ = ["__version__", "begin_packed", "end_packed", "library", "problem", "target"]

__version__ = version("edgespec-kernels")
NOT_COMPILED = "+not.compiled"  # in the version, where a C++ compiler was missing (pyproject.toml)


def library() -> Path:
    """The path of the shared library."""
    # A module of CMake: also on macOS its name ends in .so.
    name = "edgespec_kernels.dll" if sys.platform == "win32" else "libedgespec_kernels.so"
    return Path(__file__).with_name(name)


def target() -> str | None:
    """The instruction set in use, by the names of README.md; None if `problem` has one.

    Raises:
        OSError: the library cannot be loaded: it is damaged, or built for another system.
    """
    return None if NOT_COMPILED in __version__ else _text(_library().edgespec_kernels_target())


def problem() -> str | None:
    """Why no kernels run on this processor, in one line; None if they do."""
    if NOT_COMPILED in __version__:
        return "edgespec-kernels were installed without a C++ compiler (g++ 11 or clang++ 14)"
    return _text(_library().edgespec_kernels_problem())


def begin_packed(file: Path, identity: str) -> bool:
    """Sessions that this thread makes until `end_packed` take their packed weights from a file.

    Args:
        file: where it is missing, cut short or of another identity, what the sessions pack is
            recorded instead.
        identity: of the graph and its weights, without line breaks.

    Returns:
        Whether the file is used. Processes that use it share its pages.
    """
    return bool(_library().edgespec_kernels_packed_begin(os.fsencode(file), identity.encode()))


def end_packed(file: Path | None) -> None:
    """Ends what `begin_packed` began.

    Args:
        file: where to write what was recorded; None writes nothing.

    Raises:
        OSError: there is nothing to write, or it cannot be written.
    """
    path = None if file is None else os.fsencode(file)
    if not _library().edgespec_kernels_packed_end(path):
        raise OSError(errno.ENOSPC, "packed weights cannot be written", str(file))


@cache
def _library() -> ctypes.CDLL:
    _check_sizes()
    loaded = ctypes.CDLL(str(library()))
    for function in (loaded.edgespec_kernels_target, loaded.edgespec_kernels_problem):
        function.restype = ctypes.c_char_p
    return loaded


def _check_sizes() -> None:
    """Raises OSError if a library is cut short: loading it would end the process."""
    for file in files("edgespec-kernels") or ():
        if file.size is not None and file.suffix in (".so", ".dylib", ".dll", ".pyd"):
            size = Path(str(file.locate())).stat().st_size  # OSError, too, if it is missing
            if size != file.size:
                raise OSError(f"{file.name} has {size} bytes instead of {file.size}")


def _text(answer: bytes | None) -> str | None:
    return None if answer is None else answer.decode()
