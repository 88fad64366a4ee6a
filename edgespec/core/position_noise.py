"""The noise of a text's positions, for the coupled rule: stated to the bit, for any language.

Every token x has at position i of the text an exponential number E_i(x), and the token chosen from
a distribution p is argmax p(x) / E_i(x): an exponential race, in which x wins with probability
p(x). (It is the Gumbel trick without its second logarithm.) E depends on the seed, the position and
the token id alone, so a target and a draft with other supports or vocabularies see the same noise.

- The key of a position is BLAKE2b with digest size 16 of the text "seed:position", read as four
  little-endian 32-bit integers a, b, c, d.
- `mixed(x, a, b)` below makes 32 bits of a token id; `mixed(x, c, d)` another 32. The first 32 and
  the upper 20 of the others are one integer of 52 bits; v = (bits + 1/2) / 2^52, exactly.
- E = -log(1 - v) by `exponential` below: double precision, in which every step rounds once (no
  fused multiply-add).
- p(x) / E is one division in double precision. Of equal quotients the smaller token id wins.

So equal probabilities p give the same token in every implementation.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from edgespec.core.array_types import Probabilities, TokenIds

__all__ = ["Arrival", "NoiseKey", "exponential", "noise_key", "race"]

NoiseKey = tuple[int, int, int, int]
Arrival = tuple[int, float]  # a token and p(x) / E: the token with the largest arrives first

LN2 = 0.6931471805599453
SQRT_HALF = 0.7071067811865476
SERIES = [1 / odd for odd in range(21, 0, -2)]  # of atanh(z) / z in z², the last term first
ROUNDING = 1e-6  # relative, more than float32 loses in a bound


def noise_key(seed: int, position: int) -> NoiseKey:
    """The key of one position of a text."""
    digest = hashlib.blake2b(f"{seed}:{position}".encode(), digest_size=16).digest()
    a, b, c, d = struct.unpack("<4I", digest)
    return a, b, c, d


def race(tokens: TokenIds, weights: Probabilities, key: NoiseKey, reach: float) -> list[Arrival]:
    """The tokens whose p(x) / E is at least 1 / reach of the largest, best first.

    E ≥ v, so the upper 32 bits bound p(x) / E from above: few tokens need their exact number.

    Args:
        tokens: [k] token ids, increasing.
        weights: [k] their probabilities p, floats.
        reach: 1 for the chosen token alone, or more.
    """
    a, b, c, d = key
    high = mixed(tokens, a, b)
    # The summand only matters where `high` is 0: there the bound becomes huge.
    bounds = weights / (high.astype(np.float32) + np.float32(1e-30))

    def arrivals_of(indices: TokenIds) -> list[Arrival]:
        few = tokens[indices]
        columns = few, weights[indices], high[indices], mixed(few, c, d)
        return [
            (token, weight / exponential(upper << 20 | lower >> 12))
            for token, weight, upper, lower in zip(*(c.tolist() for c in columns), strict=True)
        ]

    ((_, guess),) = arrivals_of(np.array([bounds.argmax()]))
    near = np.flatnonzero(bounds >= guess / reach * 2.0**-32 * (1 - ROUNDING))
    arrivals = arrivals_of(near)
    arrivals.sort(key=lambda arrival: -arrival[1])  # stable: of equal ones the smaller token first
    return [arrival for arrival in arrivals if arrival[1] >= arrivals[0][1] / reach]


def mixed(tokens: TokenIds | Sequence[int], a: int, b: int) -> npt.NDArray[np.uint32]:
    """32 random bits for each token id ([k]): a hash with little bias, Wellons' triple32, of the id
    and one half of a key; all arithmetic is modulo 2^32."""
    h = np.asarray(tokens).astype(np.uint32)
    h ^= np.uint32(a)
    h ^= h >> np.uint32(17)
    h *= np.uint32(0xED5AD4BB)
    h ^= h >> np.uint32(11)
    h += np.uint32(b)
    h *= np.uint32(0xAC4C1B51)
    h ^= h >> np.uint32(15)
    h *= np.uint32(0x31848BAB)
    h ^= h >> np.uint32(14)
    return h


def exponential(bits: int) -> float:
    """E = -log(1 - v) with v = (bits + 1/2) / 2^52, for 0 ≤ bits < 2^52.

    1 - v = m · 2^power with m in [√½, √2); -log m = 2 atanh(z) with z = (1 - m) / (1 + m).
    """
    m, power = math.frexp(1 - (bits + 0.5) * 2.0**-52)
    if m < SQRT_HALF:
        m, power = 2 * m, power - 1
    z = (1 - m) / (1 + m)
    series = 0.0
    for coefficient in SERIES:
        series = series * (z * z) + coefficient
    return 2 * z * series - power * LN2
