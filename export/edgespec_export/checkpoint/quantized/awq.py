"""AWQ's gemm layout: 4 bits, eight outputs in a word, in an order of its own.

`qweight` int32 [in, out / 8], `qzeros` int32 [groups, out / 8], `scales` float16 [groups, out]; a
weight is (code - zero) · scale. Lin et al. (2023, arXiv 2306.00978), as AutoAWQ stores it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from edgespec.errors import EdgespecError, shortened
from edgespec_export.checkpoint.json_file import JsonObject
from edgespec_export.checkpoint.quantized.bit_stream import unpacked
from edgespec_export.checkpoint.quantized.matrix import Blocks, Found, Parts, modules

__all__ = ["find_awq"]

PARTS = ("qweight", "qzeros", "scales")
VERSION = "gemm"
BITS = 4
IN_WORD = 8  # codes
# The outputs of a word, from its lowest bits on, are 0 2 4 6 1 3 5 7; this puts them in order.
ORDER = (0, 4, 1, 5, 2, 6, 3, 7)


def find_awq(settings: JsonObject, parts: Parts) -> Found:
    """The matrices of an AWQ checkpoint.

    Raises:
        EdgespecError: a layout or a number of bits that is not read, or parts that do not fit.
    """
    version = settings.get("version") or settings.get("format") or VERSION
    if str(version).lower() != VERSION or settings.get("backend") == "llm-awq":
        raise EdgespecError(f"in the layout {shortened(version)}, and only {VERSION!r} is read")
    bits = settings.get("bits", settings.get("w_bit", BITS))
    if bits != BITS:
        raise EdgespecError(f"with {shortened(bits)} bits, and only {BITS} are read")
    names = list(modules(parts, PARTS[0]))
    return Found(
        {f"{name}.weight": _matrix(parts, name) for name in names},
        frozenset(f"{name}.{part}" for name in names for part in PARTS),
    )


def _matrix(parts: Parts, name: str) -> Blocks:
    weights, zeros, scales = (f"{name}.{part}" for part in PARTS)
    width, words = parts.shape(weights)
    groups, out = parts.shape(scales)
    if words * IN_WORD != out or parts.shape(zeros) != (groups, words) or width % groups:
        raise EdgespecError(f"and the parts of {name} do not fit one another")
    return Blocks(
        shape=(out, width),
        codes=partial(_codes, parts, weights),
        scales=lambda: parts.read_part(scales).T,
        zeros=lambda: _in_order(parts.read_part(zeros)).T,
        block_rows=1,
        columns=np.arange(width) // (width // groups),
    )


def _codes(parts: Parts, name: str, start: int, stop: int) -> npt.NDArray[np.uint8]:
    """Codes of outputs start to stop, [stop - start, in]."""
    first = start // IN_WORD
    words = parts.read_part(name)[:, first : -(-stop // IN_WORD)]
    return _in_order(words)[:, start - first * IN_WORD : stop - first * IN_WORD].T


def _in_order(words: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    codes = unpacked(words, BITS)
    return codes.reshape(*words.shape, IN_WORD)[..., ORDER].reshape(codes.shape)
