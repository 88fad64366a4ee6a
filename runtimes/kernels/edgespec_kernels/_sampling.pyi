from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

def largest(row: Floats, /) -> int: ...
def weigh(row: Floats, highest: float, sharpness: float, out: Floats, /) -> float: ...
def nucleus(
    row: Floats,
    highest: float,
    sharpness: float,
    share: float,
    places: npt.NDArray[np.int64],
    weights: Floats,
    /,
) -> int: ...
def draw(weights: Floats, uniform: float, /) -> int: ...
def excess(
    p: Floats, factor: Any, q: Floats, places: npt.NDArray[np.int64], out: Floats, /
) -> None: ...
