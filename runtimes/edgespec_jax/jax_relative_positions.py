"""T5's relative positions: which bucket a distance falls into.

Raffel et al. (2020, arXiv 1910.10683), section 2.1. Written from the paper and from transformers,
independently of the exporter's `components/positions.py`; a test compares the two.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

__all__ = ["bucket_of_distance", "bucket_of_offset"]

Positions = npt.NDArray[np.int64]


def bucket_of_distance(distances: Positions, buckets: int, max_distance: int) -> Positions:
    """The bucket of each distance ≥ 0, from 0 to `buckets` - 1.

    The first half of the buckets hold one distance each. The others grow logarithmically up to
    `max_distance`; the last one also holds all larger distances. In float32, as in training.
    """
    exact = buckets // 2
    scale = np.float32(math.log(max_distance / exact))
    ratios = np.maximum(distances, exact).astype(np.float32) / np.float32(exact)
    further = (np.log(ratios) / scale * np.float32(buckets - exact)).astype(np.int64)
    return np.where(distances < exact, distances, np.minimum(exact + further, buckets - 1))


def bucket_of_offset(offsets: Positions, buckets: int, max_distance: int) -> Positions:
    """The bucket of each key position minus query position, in both directions (the encoder).

    The first half of the buckets is for keys up to the query, the second for keys after it.
    """
    half = buckets // 2
    return bucket_of_distance(np.abs(offsets), half, max_distance) + half * (offsets > 0)
