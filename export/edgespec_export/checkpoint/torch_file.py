"""Weights in PyTorch's own files, read without running code that they contain."""

from __future__ import annotations

import importlib
import zipfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from edgespec.errors import EdgespecError, in_checkout, one_line, shortened
from edgespec_export.checkpoint.shard_index import read_shard_index
from edgespec_export.checkpoint.weights import Tensor, missing_tensor

__all__ = ["TorchBin"]


class TorchBin:
    """A `pytorch_model.bin`, or the shards of a `pytorch_model.bin.index.json`.

    The files are mapped, not loaded. Only tensors are unpickled; a file with anything else is
    refused.
    """

    def __init__(self, path: Path) -> None:
        """Maps every file.

        Args:
            path: the file, or the index.

        Raises:
            EdgespecError: no torch; a file is missing, corrupt, older than PyTorch 1.6, or holds
                more than tensors.
        """
        torch = _torch(path)
        self._path = path
        sharded = path.suffix == ".json"
        files = sorted(set(read_shard_index(path).values())) if sharded else [path]
        self._tensors: dict[str, Any] = {}
        for file in files:
            self._tensors |= _mapped(torch, file)
        self._check_index()

    def names(self) -> list[str]:
        """Every tensor's name, sorted."""
        return sorted(self._tensors)

    def shape(self, name: str) -> tuple[int, ...]:
        """The tensor's shape."""
        return tuple(self._tensor(name).shape)

    def read(self, name: str) -> Tensor:
        """The tensor: float32, float16, bfloat16 or int64 as stored, C-contiguous.

        Raises:
            EdgespecError: no such tensor, or another dtype.
        """
        torch = _torch(self._path)
        tensor = self._tensor(name).contiguous()
        if tensor.dtype == torch.bfloat16:  # numpy lacks the type, so view the bits as int16
            return np.asarray(tensor.view(torch.int16).numpy()).view(ml_dtypes.bfloat16)
        if tensor.dtype not in (torch.float32, torch.float16, torch.int64):
            raise EdgespecError(
                f"{self._path}: {name} is stored as {tensor.dtype}, which is not one of float32, "
                "float16, bfloat16: take the model's unquantized checkpoint"
            )
        return np.asarray(tensor.numpy())

    def _tensor(self, name: str) -> Any:
        if name not in self._tensors:
            raise missing_tensor(self._path, name, self._tensors)
        return self._tensors[name]

    def _check_index(self) -> None:
        if self._path.suffix != ".json":
            return
        for name, file in read_shard_index(self._path).items():
            if name not in self._tensors:
                raise EdgespecError(
                    f"{file}: lacks {shortened(name)}, which {self._path.name} says is there"
                )


def _torch(path: Path) -> Any:
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        raise EdgespecError(
            f"{path}: reading PyTorch weights needs torch: {in_checkout('.[torch]')}"
        ) from error


def _mapped(torch: Any, path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise EdgespecError(f"{path}: no such file")
    if not zipfile.is_zipfile(path):
        raise EdgespecError(
            f"{path}: cut off, or from before PyTorch 1.6, whose files cannot be mapped: "
            "convert it to safetensors"
        )
    try:
        state = torch.load(path, weights_only=True, mmap=True, map_location="cpu")
    except Exception as error:  # the zip reader and the unpickler raise many kinds
        reason = one_line(error)
        raise EdgespecError(
            f"{path}: corrupt, or holds more than tensors, which is never unpickled "
            f"({reason}): convert it to safetensors"
        ) from error
    if not isinstance(state, dict):
        raise EdgespecError(f"{path}: holds a {type(state).__name__}, not a table of tensors")
    return {name: value for name, value in state.items() if torch.is_tensor(value)}
