"""MLX: groups of codes with a scale and a bias.

`weight` uint32 [out, in · bits / 32], `scales` and `biases` [out, groups]; a weight is
code · scale + bias. Bits and group size are in the config, for all modules or one by one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgespec.errors import EdgespecError, shortened
from edgespec_export.checkpoint.json_file import JsonObject
from edgespec_export.checkpoint.quantized.bit_stream import unpacked
from edgespec_export.checkpoint.quantized.matrix import Float, Found, Parts, modules

__all__ = ["find_mlx"]

BITS = (2, 3, 4, 5, 6, 8)
MODE = "affine"


@dataclass(frozen=True)
class _Affine:
    """A matrix of MLX.

    Attributes:
        shape: [out, in].
        group: inputs that share a scale and a bias.
    """

    parts: Parts
    name: str
    shape: tuple[int, ...]
    bits: int
    group: int

    def rows(self, start: int, stop: int) -> Float:
        words = self.parts.read_part(f"{self.name}.weight", start, stop)
        codes = unpacked(words, self.bits).reshape(stop - start, -1, self.group)
        scales, biases = (
            self.parts.read_part(f"{self.name}.{part}", start, stop).astype(np.float32)[:, :, None]
            for part in ("scales", "biases")
        )
        return (codes.astype(np.float32) * scales + biases).reshape(stop - start, -1)


def find_mlx(settings: JsonObject, parts: Parts) -> Found:
    """The matrices of an MLX checkpoint.

    Raises:
        EdgespecError: another mode or number of bits, or parts that do not fit.
    """
    names = list(modules(parts, "scales"))
    return Found(
        {f"{name}.weight": _matrix(settings, parts, name) for name in names},
        frozenset(f"{name}.{part}" for name in names for part in ("scales", "biases")),
    )


def _matrix(settings: JsonObject, parts: Parts, name: str) -> _Affine:
    own = settings.get(name)
    own = {**settings, **own} if isinstance(own, dict) else settings
    mode, bits, group = own.get("mode", MODE), own.get("bits"), own.get("group_size")
    if mode != MODE or f"{name}.biases" not in parts:
        raise EdgespecError(f"in the mode {shortened(mode)} ({name}), and only {MODE!r} is read")
    if not isinstance(bits, int) or bits not in BITS or not isinstance(group, int) or group <= 0:
        raise EdgespecError(
            f"with {shortened(bits)} bits in groups of {shortened(group)} ({name}), and only "
            f"{', '.join(map(str, BITS))} bits are read"
        )
    out, words = parts.shape(f"{name}.weight")
    width = words * 32 // bits
    grids = [parts.shape(f"{name}.{part}") for part in ("scales", "biases")]
    if parts.dtype(f"{name}.weight") != "U32" or grids != [(out, width // group)] * 2:
        raise EdgespecError(f"and the parts of {name} do not fit one another")
    return _Affine(parts, name, (out, width), bits, group)
