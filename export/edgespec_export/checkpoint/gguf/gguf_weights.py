"""Weights in a GGUF file, by their Hugging Face names and dequantized."""

from __future__ import annotations

from collections.abc import Mapping

import ml_dtypes
import numpy as np
from gguf.quants import dequantize

from edgespec.errors import EdgespecError
from edgespec_export.checkpoint.gguf.architectures.architecture import EXPERT, Architecture
from edgespec_export.checkpoint.gguf.gguf_header import GgufHeader
from edgespec_export.checkpoint.weights import Tensor, missing_tensor

__all__ = ["GgufWeights"]

_STORED = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": np.dtype(ml_dtypes.bfloat16)}


class GgufWeights:
    """The tensors of a GGUF file; `read` reads and dequantizes one.

    `read` undoes what llama.cpp's converter changes (architectures/architecture.py): it restores
    the order of rows, subtracts 1 from norms, and gives back the checkpoint's shape.
    """

    def __init__(
        self, header: GgufHeader, architecture: Architecture, heads: Mapping[str, int]
    ) -> None:
        """Finds the Hugging Face name of every tensor.

        Args:
            header: the file.
            architecture: the file's.
            heads: number of heads of each projection ("q_proj", "k_proj") with reordered rows.

        Raises:
            EdgespecError: a tensor that no model of this architecture has, by name.
        """
        self._header = header
        self._architecture = architecture
        self._heads = heads
        self._stored_names: dict[str, str] = {}
        self._experts: dict[str, int] = {}  # the number of an expert, by the names of its tensors
        for name in header.tensors.keys() - architecture.of_config:
            found = architecture.hugging_face_name(header, name)
            if EXPERT not in found:
                self._stored_names[found] = name
                continue
            for expert in range(header.tensors[name].shape[0]):
                one = found.replace(EXPERT, str(expert))
                self._stored_names[one], self._experts[one] = name, expert

    def names(self) -> list[str]:
        """Every tensor's name, sorted."""
        return sorted(self._stored_names)

    def shape(self, name: str) -> tuple[int, ...]:
        """The tensor's shape."""
        shape = self._header.tensors[self._stored_name(name)].shape
        if name in self._experts:
            return shape[1:]
        if name.endswith(self._architecture.transposed):
            return shape[::-1]
        return (shape[0], 1, *shape[1:]) if name.endswith(self._architecture.squeezed) else shape

    def read(self, name: str) -> Tensor:
        """The tensor: float32, float16 or bfloat16 if stored so, else dequantized to float32.

        Raises:
            EdgespecError: no such tensor, or a quantization that gguf cannot dequantize.
        """
        stored = self._stored_name(name)
        if name in self._experts:
            expert: Tensor = self._values(stored, self._experts[name], self._experts[name] + 1)[0]
            return expert
        values = self._values(stored, 0, self._header.tensors[stored].shape[0])
        if self._architecture.norms_with_one and name.endswith("norm.weight"):
            return values.astype(np.float32) - np.float32(1)
        if name.endswith(self._architecture.transposed):
            return np.ascontiguousarray(values.T)
        if name.endswith(self._architecture.squeezed):
            return values[:, None]
        heads = self._heads_of(name)
        if heads is None:
            return values
        if values.shape[0] % (2 * heads):
            raise EdgespecError(
                f"{self._header.path}: {name} has {values.shape[0]} rows for {heads} heads"
            )
        return _unpermuted(values, heads)

    def read_rows(self, name: str, start: int, stop: int) -> Tensor:
        """Rows of `read`; of tensors that differ from the stored ones the whole is read."""
        changed = (*self._architecture.transposed, *self._architecture.squeezed, "norm.weight")
        is_whole = self._heads_of(name) is None and name not in self._experts
        if not is_whole or name.endswith(changed):
            return self.read(name)[start:stop]
        return self._values(self._stored_name(name), start, stop)

    def _heads_of(self, name: str) -> int | None:
        """Of a projection whose rows are reordered."""
        return self._heads.get(name.split(".")[-2])

    def _values(self, stored_name: str, start: int, stop: int) -> Tensor:
        tensor = self._header.tensors[stored_name]
        kind = tensor.kind.name
        path = tensor.file
        row = tensor.bytes // tensor.shape[0]
        offset = tensor.offset + start * row
        data = np.fromfile(path, np.uint8, (stop - start) * row, offset=offset)
        if data.size != (stop - start) * row:
            raise EdgespecError(f"{path}: {stored_name} is cut off: the file changed while read")
        shape = (stop - start, *tensor.shape[1:])
        if kind in _STORED:
            return np.asarray(data.view(_STORED[kind])).reshape(shape)
        try:
            rows = data.reshape(*shape[:-1], -1)
            return np.asarray(dequantize(rows, tensor.kind), order="C")
        except NotImplementedError as error:
            raise EdgespecError(
                f"{path}: {stored_name} is stored as {kind}, which gguf cannot dequantize: "
                "take a file in Q8_0, F16 or BF16"
            ) from error

    def _stored_name(self, name: str) -> str:
        if name not in self._stored_names:
            raise missing_tensor(self._header.path, name, self._stored_names)
        return self._stored_names[name]


def _unpermuted(values: Tensor, heads: int) -> Tensor:
    """[heads · size, …]: the rows in two halves of each head instead of neighbouring pairs."""
    pairs = values.reshape(heads, -1, 2, *values.shape[1:])
    return np.asarray(pairs.swapaxes(1, 2).reshape(values.shape))
