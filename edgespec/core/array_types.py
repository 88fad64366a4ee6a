"""Array types with their shapes. Tests check them at run time; users pay nothing.

Where jaxtyping is installed, each name carries dtype and shape, and the test suite checks every
call of this package against them. Elsewhere they are plain numpy arrays.

    rows   positions of a call        vocab  size of the vocabulary
    k      support of a distribution  n      any other number of tokens
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "AnyArray",
    "LogitRows",
    "Logits",
    "Probabilities",
    "QIndices",
    "QProbabilities",
    "TokenIds",
    "TopRows",
    "TopTokenIds",
    "VocabIndices",
    "VocabRow",
]

if TYPE_CHECKING:
    Logits = npt.NDArray[np.float32]
    LogitRows = npt.NDArray[np.float32]
    TokenIds = npt.NDArray[np.int64]
    Probabilities = npt.NDArray[Any]
    TopTokenIds = npt.NDArray[np.int64]
    TopRows = npt.NDArray[np.float32]
    VocabIndices = npt.NDArray[np.int64]
    QProbabilities = npt.NDArray[Any]
    QIndices = npt.NDArray[np.int64]
    AnyArray = npt.NDArray[Any]
    VocabRow = npt.NDArray[Any]
else:
    try:
        from jaxtyping import Float32, Int, Int64, Shaped
    except ImportError:
        Logits = LogitRows = TokenIds = Probabilities = np.ndarray
        TopTokenIds = TopRows = VocabIndices = QProbabilities = QIndices = AnyArray = VocabRow = (
            np.ndarray
        )
    else:
        Logits = Float32[np.ndarray, "vocab"]
        LogitRows = Shaped[np.ndarray, "rows vocab"]  # float32, or a test's fractions
        TokenIds = Int64[np.ndarray, "k"]
        Probabilities = Shaped[np.ndarray, "k"]  # floats, or a test's `Fraction` objects
        TopTokenIds = Int64[np.ndarray, "rows best"]
        TopRows = Float32[np.ndarray, "rows best"]
        VocabIndices = Int64[np.ndarray, "vocab"]
        QProbabilities = Shaped[np.ndarray, "n"]
        QIndices = Int[np.ndarray, "n"]
        VocabRow = Shaped[np.ndarray, "vocab"]  # logits, or what a test uses in their place
        AnyArray = Shaped[np.ndarray, "..."]
