from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

def largest(row: Floats, /) -> int: ...
def weigh(row: Floats, highest: float, inverse_temperature: float, out: Floats, /) -> float: ...
def nucleus(
    row: Floats,
    highest: float,
    inverse_temperature: float,
    share: float,
    indices: npt.NDArray[np.int64],
    weights: Floats,
    /,
) -> int: ...
def draw(weights: Floats, uniform: float, /) -> int: ...
def excess(
    p: Floats, factor: Any, q: Floats, indices: npt.NDArray[np.int64], out: Floats, /
) -> None: ...
def race(
    tokens: npt.NDArray[np.int64],
    weights: Floats,
    key: tuple[int, int, int, int],
    reach: float,
    /,
) -> list[tuple[int, float]]: ...
