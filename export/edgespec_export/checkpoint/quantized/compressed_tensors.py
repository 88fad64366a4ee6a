"""compressed-tensors, the format of llm-compressor and vLLM.

Of weights in float8 or int8: `weight` [out, in] with `weight_scale`. Of 2 to 8 bits, packed:
`weight_packed` int32 [out, in · bits / 32], `weight_shape`, `weight_scale` [out, groups] and, if
the codes have zero points, `weight_zero_point` int32 [out · bits / 32, groups]. Packed codes and
zero points are stored with half their range added. Some packed matrices have `weight_g_idx` [in],
the group of each input.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from edgespec.errors import EdgespecError, shortened
from edgespec_export.checkpoint.json_file import JsonObject
from edgespec_export.checkpoint.quantized.bit_stream import unpacked
from edgespec_export.checkpoint.quantized.matrix import Blocks, Found, Parts, modules
from edgespec_export.checkpoint.quantized.scaled import of_activations, scaled_matrix

__all__ = ["find_compressed_tensors"]

FORMATS = (
    *("pack-quantized", "float-quantized", "int-quantized", "naive-quantized"),
    *("dense", "mixed-precision"),
)
CODES = ("F8_E4M3", "F8_E5M2", "I8")
PACKED, SCALE, ZERO, GROUPS = "weight_packed", "weight_scale", "weight_zero_point", "weight_g_idx"
PARTS = (PACKED, SCALE, ZERO, GROUPS, "weight_shape")


def find_compressed_tensors(settings: JsonObject, parts: Parts) -> Found:
    """The matrices of a compressed-tensors checkpoint.

    Raises:
        EdgespecError: a format that is not read, or parts that do not fit.
    """
    groups = _groups(settings)
    for group in groups:
        _check_format(group)
    _check_others(settings)
    block = _block(groups)
    matrices: dict[str, Any] = {}
    for name in modules(parts, SCALE):
        if f"{name}.{PACKED}" in parts:
            matrices[f"{name}.weight"] = _packed(parts, name)
        else:
            matrices[f"{name}.weight"] = _plain(parts, name, block)
    hidden = {f"{name.removesuffix('.weight')}.{part}" for name in matrices for part in PARTS}
    return Found(matrices, frozenset(hidden | of_activations(parts)))


def _groups(settings: JsonObject) -> list[JsonObject]:
    """The settings of all modules, then of each group of them."""
    groups = settings.get("config_groups")
    named = groups.values() if isinstance(groups, dict) else ()
    return [settings, *(group for group in named if isinstance(group, dict))]


def _check_format(group: JsonObject) -> None:
    layout = group.get("format")
    if layout is not None and layout not in FORMATS:
        raise EdgespecError(
            f"in the format {shortened(layout)}, and only {', '.join(FORMATS[:4])} are read"
        )


def _check_others(settings: JsonObject) -> None:
    """Refuses what changes the weights in a way that is not read."""
    for key, inner in (("sparsity_config", "format"), ("transform_config", "config_groups")):
        other = settings.get(key)
        if isinstance(other, dict) and other.get(inner) not in (None, "dense", {}):
            raise EdgespecError(f"with a {key}, which is not read")


def _block(groups: Iterable[JsonObject]) -> tuple[int, int] | None:
    """The size of a block, where a group has blocks."""
    for group in groups:
        match group:
            case {"weights": {"block_structure": [int(rows), int(columns)]}}:
                return rows, columns
    return None


def _plain(parts: Parts, name: str, block: tuple[int, int] | None) -> Blocks:
    weight = f"{name}.weight"
    if parts.dtype(weight) not in CODES:
        raise EdgespecError(f"and {weight} is stored as {parts.dtype(weight)}")
    return scaled_matrix(parts, weight, f"{name}.{SCALE}", f"{name}.{ZERO}", block)


def _packed(parts: Parts, name: str) -> Blocks:
    packed, scale, zero, order = (f"{name}.{part}" for part in (PACKED, SCALE, ZERO, GROUPS))
    if parts.dtype(packed) != "I32":
        raise EdgespecError(f"and {packed} is stored as {parts.dtype(packed)}")
    out, width = (int(size) for size in parts.read_part(f"{name}.weight_shape"))
    words = parts.shape(packed)[1]
    bits = words * 32 // width
    rows, groups = parts.shape(scale) or (1, 1)
    fits = parts.shape(packed)[0] == out and rows in (1, out) and width % groups == 0
    if not fits or not 2 <= bits <= 8:
        raise EdgespecError(f"and the parts of {name} do not fit one another")
    columns = np.arange(width) // (width // groups)
    if order in parts:
        columns = parts.read_part(order).astype(np.int64)
    has_zeros = zero in parts
    return Blocks(
        shape=(out, width),
        codes=partial(_codes, parts, packed, bits, width),
        scales=lambda: parts.read_part(scale).reshape(rows, groups),
        zeros=(lambda: _signed(parts.read_part(zero).T, bits, out).T) if has_zeros else None,
        block_rows=out // rows,
        columns=columns,
    )


def _codes(
    parts: Parts, name: str, bits: int, width: int, start: int, stop: int
) -> npt.NDArray[np.int16]:
    return _signed(parts.read_part(name, start, stop), bits, width)


def _signed(words: npt.NDArray[Any], bits: int, count: int) -> npt.NDArray[np.int16]:
    """The first `count` codes of each row, without what was added to them."""
    return unpacked(words, bits)[:, :count].astype(np.int16) - np.int16(2 ** (bits - 1))
