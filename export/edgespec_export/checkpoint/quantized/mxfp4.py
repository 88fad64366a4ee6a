"""MXFP4: floats of 4 bits in blocks of 32 inputs with an exponent each (OCP Microscaling 1.0).

gpt-oss has experts stored so: `gate_up_proj_blocks` uint8 [experts, out, in / 32, 16], the first of
two inputs in the low half of a byte, and `gate_up_proj_scales` uint8 [experts, out, in / 32], 127
more than the exponent. Unquantized it is `gate_up_proj` [experts, in, out].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgespec.errors import EdgespecError
from edgespec_export.checkpoint.json_file import JsonObject
from edgespec_export.checkpoint.quantized.matrix import Float, Found, Parts

__all__ = ["find_mxfp4"]

# What the 16 codes stand for: a sign, two bits of exponent and one of fraction.
VALUES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
CODES = np.concatenate([VALUES, -VALUES])
BLOCK, BIAS = 32, 127
_BLOCKS, _SCALES = "_blocks", "_scales"


@dataclass(frozen=True)
class _Experts:
    """The matrices of all experts, [experts, in, out]."""

    parts: Parts
    name: str
    shape: tuple[int, ...]

    def rows(self, start: int, stop: int) -> Float:
        """Experts start to stop."""
        stored = self.parts.read_part(f"{self.name}{_BLOCKS}", start, stop)
        exponents = self.parts.read_part(f"{self.name}{_SCALES}", start, stop).astype(np.int32)
        codes = np.stack([stored & 15, stored >> 4], axis=-1).reshape(*stored.shape[:-1], BLOCK)
        values: Float = np.ldexp(CODES[codes], exponents[..., None] - BIAS)
        return values.reshape(*values.shape[:2], -1).swapaxes(1, 2)


def find_mxfp4(settings: JsonObject, parts: Parts) -> Found:
    """The matrices of a checkpoint in MXFP4.

    Raises:
        EdgespecError: parts of another type, or that do not fit one another.
    """
    names = [name.removesuffix(_BLOCKS) for name in parts.names() if name.endswith(_BLOCKS)]
    return Found(
        {name: _experts(parts, name) for name in names},
        frozenset(f"{name}{part}" for name in names for part in (_BLOCKS, _SCALES)),
    )


def _experts(parts: Parts, name: str) -> _Experts:
    stored = [f"{name}{part}" for part in (_BLOCKS, _SCALES)]
    experts, out, blocks, size = parts.shape(stored[0])
    is_known = all(part in parts and parts.dtype(part) == "U8" for part in stored)
    if not is_known or parts.shape(stored[1]) != (experts, out, blocks) or size != BLOCK // 2:
        raise EdgespecError(f"and the parts of {name} do not fit one another")
    return _Experts(parts, name, (experts, blocks * BLOCK, out))
