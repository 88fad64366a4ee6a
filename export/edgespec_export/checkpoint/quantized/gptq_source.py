"""GPTQ's layout: codes of 2, 3, 4 or 8 bits packed along the inputs.

`qweight` int32 [in · bits / 32, out], `qzeros` int32 [groups, out · bits / 32], `scales` [groups,
out] and `g_idx` int32 [in], the group of each input: with act-order they are in no order. A weight
is (code - zero) · scale. The first version of the layout stores the zero point less 1. Frantar et
al. (2022, arXiv 2210.17323), as AutoGPTQ and GPTQModel store it.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt

from edgespec.errors import EdgespecError, shortened
from edgespec_export.checkpoint.json_file import JsonObject
from edgespec_export.checkpoint.quantized.bit_stream import unpacked
from edgespec_export.checkpoint.quantized.matrix import Blocks, Found, Parts, modules

__all__ = ["find_gptq"]

PARTS = ("qweight", "qzeros", "scales", "g_idx")
BITS = (2, 3, 4, 8)
ADDED = {"gptq": 1, "gptq_v2": 0}  # to the zero points, by the layout


def find_gptq(settings: JsonObject, parts: Parts) -> Found:
    """The matrices of a GPTQ checkpoint.

    Raises:
        EdgespecError: a layout or a number of bits that is not read, or parts that do not fit.
    """
    layout = settings.get("checkpoint_format") or settings.get("format") or "gptq"
    if layout not in ADDED or settings.get("is_marlin_format"):
        raise EdgespecError(
            f"in the layout {shortened(layout)}, and only {' and '.join(ADDED)} are read"
        )
    names = list(modules(parts, PARTS[0]))
    return Found(
        {f"{name}.weight": _matrix(parts, name, ADDED[str(layout)]) for name in names},
        frozenset(f"{name}.{part}" for name in names for part in PARTS),
    )


def _matrix(parts: Parts, name: str, added: int) -> Blocks:
    """A matrix; its number of bits follows from the shapes, since modules may differ in it."""
    weights, zeros, scales, order = (f"{name}.{part}" for part in PARTS)
    words, out = parts.shape(weights)
    groups, of_scales = parts.shape(scales)
    bits = parts.shape(zeros)[1] * 32 // out
    if bits not in BITS:
        raise EdgespecError(f"with {bits} bits ({name}), and only {BITS} are read")
    width = words * 32 // bits
    if of_scales != out or parts.shape(zeros)[0] != groups:
        raise EdgespecError(f"and the parts of {name} do not fit one another")
    return Blocks(
        shape=(out, width),
        codes=partial(_codes, parts, weights, bits),
        scales=lambda: parts.read_part(scales).T,
        zeros=lambda: unpacked(parts.read_part(zeros), bits).T.astype(np.int16) + added,
        block_rows=1,
        columns=_columns(parts, order, width, groups),
    )


def _columns(parts: Parts, order: str, width: int, groups: int) -> npt.NDArray[np.int64]:
    """The group of each input."""
    if order not in parts:
        return np.arange(width) // -(-width // groups)
    columns = parts.read_part(order).astype(np.int64)
    if columns.shape != (width,) or columns.min() < 0 or columns.max() >= groups:
        raise EdgespecError(f"and {order} does not fit the other parts")
    return columns


def _codes(parts: Parts, name: str, bits: int, start: int, stop: int) -> npt.NDArray[np.uint8]:
    """Codes of outputs start to stop, [stop - start, in]."""
    return unpacked(parts.read_part(name)[:, start:stop].T, bits)
