"""Weights in safetensors files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ml_dtypes  # registers bfloat16 with numpy, which safetensors asks for by name
import numpy as np
from safetensors import safe_open

from edgespec.errors import EdgespecError
from edgespec_export.checkpoint.shard_index import read_shard_index
from edgespec_export.checkpoint.tensor_names import missing_tensor

__all__ = ["Safetensors"]

_DTYPES: dict[str, type[Any]] = {
    "F32": np.float32,
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
}


class Safetensors:
    """A `model.safetensors`, or the shards of a `model.safetensors.index.json`.

    Only headers are read when it is made; `read` copies one tensor out of its file.
    """

    def __init__(self, path: Path) -> None:
        """Read the header of every file.

        Args:
            path: the file, or the index.

        Raises:
            EdgespecError: a file is missing, cut off or corrupt, or lacks a tensor of the index.
        """
        self._path = path
        if path.suffix == ".json":
            self._files = read_shard_index(path)
            _check_index(path, self._files)
        else:
            self._files = dict.fromkeys(_names(path), path)

    def names(self) -> list[str]:
        """Every tensor's name, sorted."""
        return sorted(self._files)

    def shape(self, name: str) -> tuple[int, ...]:
        """The tensor's shape, from the header."""
        path = self._file(name)
        with _opened(path) as file:
            return tuple(file.get_slice(name).get_shape())

    def read(self, name: str) -> np.ndarray[Any, Any]:
        """The tensor: float32, float16 or bfloat16 as stored, C-contiguous.

        Raises:
            EdgespecError: no such tensor, or its dtype is another one.
        """
        path = self._file(name)
        with _opened(path) as file:
            stored = file.get_slice(name).get_dtype()
            if stored not in _DTYPES:
                raise EdgespecError(
                    f"{path}: {name} is stored as {stored}, which is not one of "
                    f"{', '.join(_DTYPES)}: take the model's unquantized checkpoint"
                )
            return np.asarray(file.get_tensor(name), _DTYPES[stored], order="C")

    def _file(self, name: str) -> Path:
        if name not in self._files:
            raise missing_tensor(self._path, name, self._files)
        return self._files[name]


def _names(path: Path) -> list[str]:
    with _opened(path) as file:
        return list(file.keys())


def _check_index(index: Path, files: dict[str, Path]) -> None:
    held = {path: set(_names(path)) for path in sorted(set(files.values()))}
    for name, path in files.items():
        if name not in held[path]:
            raise EdgespecError(f"{path}: lacks {name}, which {index.name} says is there")


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """The open file; whatever the library says about it becomes one line."""
    try:
        with safe_open(path, framework="numpy") as file:
            yield file
    except EdgespecError:
        raise
    except FileNotFoundError as error:
        raise EdgespecError(f"{path}: no such file") from error
    except Exception as error:  # SafetensorError is a bare Exception, and not the only one
        reason = " ".join(str(error).split())
        raise EdgespecError(
            f"{path}: cut off or not safetensors ({reason}): download it again"
        ) from error
