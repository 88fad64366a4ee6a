"""The smallest call of a graph, to see that and where it runs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

__all__ = ["SAMPLE_POSITIONS", "sample_inputs"]

SAMPLE_POSITIONS = 8  # of the cache
CAPACITY = "capacity"  # the name of that dimension in graphs
TYPES = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(int8)": np.int8,
    "tensor(int32)": np.int32,
    "tensor(int64)": np.int64,
}


def sample_inputs(
    session: ort.InferenceSession, positions: int = SAMPLE_POSITIONS
) -> dict[str, npt.NDArray[np.generic]]:
    """Zeros for each input that has no default: one row, no position before it.

    Args:
        positions: that the cache holds.
    """
    sizes = {CAPACITY: positions}
    return {
        value.name: np.zeros(
            [size if isinstance(size, int) else sizes.get(size, 1) for size in value.shape],
            TYPES[value.type],
        )
        for value in session.get_inputs()
    }
