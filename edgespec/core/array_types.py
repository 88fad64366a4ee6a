"""Array types with their shapes. Tests check them at run time; users pay nothing.

`tests/core/test_array_shapes.py` loads jaxtyping first. Each name then carries dtype and shape, and
every call of the core is checked against them. Elsewhere they are plain numpy arrays.

    rows   positions of a call        vocab  size of the vocabulary
    k      support of a distribution  n      any other number of tokens
"""

from __future__ import annotations

import sys
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "AnyArray",
    "LegalRow",
    "LogitRows",
    "Logits",
    "Number",
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
    AnyArray = npt.NDArray[Any]
    Probabilities = AnyArray
    TopTokenIds = npt.NDArray[np.int64]
    TopRows = npt.NDArray[np.float32]
    VocabIndices = npt.NDArray[np.int64]
    QProbabilities = AnyArray
    QIndices = npt.NDArray[np.int64]
    VocabRow = AnyArray
    LegalRow = npt.NDArray[np.bool_]
    Number = float | Fraction
elif "jaxtyping" in sys.modules:  # loaded by the tests that check shapes, before this package
    from jaxtyping import Bool, Float32, Int, Int64, Shaped

    Logits = Float32[np.ndarray, "vocab"]
    LogitRows = Shaped[np.ndarray, "rows vocab"]  # float32, or a test's fractions
    TokenIds = Int64[np.ndarray, "k"]
    Probabilities = Shaped[np.ndarray, "k"]  # floats, or a test's `Fraction` objects
    TopTokenIds = Int64[np.ndarray, "rows best"]
    TopRows = Float32[np.ndarray, "rows best"]
    VocabIndices = Int64[np.ndarray, "vocab"]
    QProbabilities = Shaped[np.ndarray, "n"]
    QIndices = Int[np.ndarray, "n"]
    LegalRow = Bool[np.ndarray, "vocab"]
    VocabRow = Shaped[np.ndarray, "vocab"]  # logits, or what a test uses instead of them
    AnyArray = Shaped[np.ndarray, "..."]
    Number = object  # a float of Python or numpy, or a test's `Fraction`
else:
    Logits = LogitRows = TokenIds = Probabilities = np.ndarray
    TopTokenIds = TopRows = VocabIndices = QProbabilities = QIndices = AnyArray = VocabRow = (
        np.ndarray
    )
    LegalRow = np.ndarray
    Number = object
