"""The number formats by their names. A new format is one file here and one entry in `FORMATS`.

Every format keeps rows apart, or the manifest says that it does not. Exactness is always with
respect to the quantized model: the distance from float32 is measured at export and written into the
manifest.
"""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import numpy.typing as npt

from edgespec_export.components.number_format import FullPrecision, NumberFormat
from edgespec_export.operators.half_ops import BFLOAT16_MATMUL, FLOAT16_MATMUL
from edgespec_export.quantization.half import Half
from edgespec_export.quantization.int4 import Int4
from edgespec_export.quantization.int8 import Int8
from edgespec_export.quantization.int8_groups import Int8Groups
from edgespec_export.quantization.weight_only import WeightOnly

__all__ = ["CALIBRATED", "FORMATS"]

Float = npt.NDArray[np.float32]

FORMATS: dict[str, Callable[[], NumberFormat]] = {
    "fp32": FullPrecision,
    "fp16": lambda: Half(np.float16, FLOAT16_MATMUL),
    "bf16": lambda: Half(ml_dtypes.bfloat16, BFLOAT16_MATMUL),
    "int8": Int8,
    "int4": Int4,
    "int8-groups": Int8Groups,
    "int8-weights": lambda: WeightOnly(8),
    "int4-weights": lambda: WeightOnly(4),
}

# Formats that round better if they know XᵀX of what each product reads (`Int4`).
CALIBRATED: dict[str, Callable[[Callable[[str], Float]], NumberFormat]] = {"int4": Int4}
