"""bitsandbytes: 4 bits by a table (nf4, fp4), and LLM.int8.

4 bits: `weight` uint8 [in · out / 2, 1], two codes in a byte, the first in its high half;
`weight.quant_map` [16], what a code means; `weight.absmax`, the largest number of each block of 64;
`weight.quant_state.bitsandbytes__nf4`, JSON in bytes. With double quantization absmax is uint8, an
index into `weight.nested_quant_map`, times `weight.nested_absmax` of its block, plus an offset.
LLM.int8: `weight` int8 [out, in] and `SCB` [out], the largest number of each row. Dettmers et al.
(2022, arXiv 2208.07339; 2023, arXiv 2305.14314).
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from edgespec.errors import EdgespecError, shortened
from edgespec_export.checkpoint.json_file import JsonObject
from edgespec_export.checkpoint.quantized.matrix import Float, Found, Matrix, Parts, modules

__all__ = ["find_bitsandbytes"]

KINDS = ("nf4", "fp4")
STATE = "weight.quant_state.bitsandbytes__"
PARTS = tuple(
    f"weight.{part}" for part in ("absmax", "quant_map", "nested_absmax", "nested_quant_map")
)
ROWS, ROWS_FORMAT = "SCB", "weight_format"
STEP = np.float32(7.874015718698502e-3)  # 1 / 127, as bitsandbytes multiplies by it


def find_bitsandbytes(settings: JsonObject, parts: Parts) -> Found:
    """The matrices of a bitsandbytes checkpoint.

    Raises:
        EdgespecError: a layout that is not read, or parts that do not fit.
    """
    matrices: dict[str, Matrix] = {}
    used: set[str] = set()
    for kind in KINDS:
        for name in modules(parts, f"{STATE}{kind}"):
            matrices[f"{name}.weight"] = _four_bits(parts, name, f"{name}.{STATE}{kind}")
            used |= {f"{name}.{part}" for part in (*PARTS, f"{STATE}{kind}")}
    for name in modules(parts, ROWS):
        _check_rows(parts, name)
        matrices[f"{name}.weight"] = _Rows(parts, f"{name}.weight", f"{name}.{ROWS}")
        used |= {f"{name}.{ROWS}", f"{name}.{ROWS_FORMAT}"}
    return Found(matrices, frozenset(used))


@dataclass(frozen=True)
class _Rows:
    """A matrix of LLM.int8."""

    parts: Parts
    weight: str
    scales: str

    @property
    def shape(self) -> tuple[int, ...]:
        return self.parts.shape(self.weight)

    def rows(self, start: int, stop: int) -> Float:
        codes = self.parts.read_part(self.weight, start, stop).astype(np.float32)
        largest = self.parts.read_part(self.scales, start, stop).astype(np.float32)
        return np.asarray(codes * largest[:, None] * STEP)


def _check_rows(parts: Parts, name: str) -> None:
    layout = f"{name}.{ROWS_FORMAT}"
    if layout in parts and parts.read_part(layout).any():
        raise EdgespecError(f"and {name} is not stored row by row")
    weight, scales = f"{name}.weight", f"{name}.{ROWS}"
    if parts.dtype(weight) != "I8" or parts.shape(scales) != parts.shape(weight)[:1]:
        raise EdgespecError(f"and the parts of {name} do not fit one another")


@dataclass(frozen=True)
class _FourBits:
    """A matrix of nf4 or fp4.

    Attributes:
        shape: [out, in].
        block: how many numbers, row after row, share an absmax.
        nested: how absmax itself is quantized; None if it is not.
    """

    parts: Parts
    name: str
    shape: tuple[int, ...]
    block: int
    nested: _Nested | None

    def rows(self, start: int, stop: int) -> Float:
        width = math.prod(self.shape[1:])
        first, last = start * width, stop * width
        table = self.parts.read_part(f"{self.name}.weight.quant_map").astype(np.float32)
        data = self.parts.read_part(f"{self.name}.weight").reshape(-1).view(np.uint8)
        data = data[first // 2 : -(-last // 2)]
        codes = np.stack([data >> 4, data & 15], axis=-1).reshape(-1)
        codes = codes[first % 2 : first % 2 + last - first]
        largest = self._largest()[np.arange(first, last) // self.block]
        return (table[codes] * largest).reshape(stop - start, *self.shape[1:])

    def _largest(self) -> Float:
        """The largest number of each block."""
        stored = self.parts.read_part(f"{self.name}.weight.absmax").reshape(-1)
        return stored.astype(np.float32) if self.nested is None else self.nested.of(stored)


@dataclass(frozen=True)
class _Nested:
    """Double quantization: absmax as an index, with an absmax for each of its own blocks."""

    table: Float
    largest: Float
    block: int
    offset: np.float32

    def of(self, stored: npt.NDArray[Any]) -> Float:
        scales = self.largest[np.arange(stored.size) // self.block]
        return np.asarray(self.table[stored] * scales + self.offset)


def _four_bits(parts: Parts, name: str, state: str) -> _FourBits:
    try:
        values = json.loads(parts.read_part(state).tobytes())
        shape = tuple(int(size) for size in values["shape"])
        nested = None
        if f"{name}.{PARTS[2]}" in parts:
            largest, table = (parts.read_part(f"{name}.{part}") for part in PARTS[2:])
            block, offset = int(values["nested_blocksize"]), np.float32(values["nested_offset"])
            nested = _Nested(table.astype(np.float32), largest.astype(np.float32), block, offset)
        matrix = _FourBits(parts, name, shape, int(values["blocksize"]), nested)
    except (ValueError, KeyError, TypeError) as error:
        raise EdgespecError(f"and {shortened(state)} cannot be read ({error})") from None
    count = math.prod(shape)
    blocks = -(-count // matrix.block)
    if parts.shape(f"{name}.{PARTS[1]}") != (16,) or parts.shape(f"{name}.{PARTS[0]}") != (blocks,):
        raise EdgespecError(f"and the parts of {name} do not fit one another")
    return matrix
