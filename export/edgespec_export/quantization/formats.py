"""The number formats by their names. A new format is one file here and one entry in `FORMATS`.

Every format keeps rows apart, or the manifest says that it does not. Exactness is always with
respect to the quantized model: the distance from float32 is measured at export and written into the
manifest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import numpy.typing as npt

from edgespec.costs.row_cost import RowCost
from edgespec_export.components.number_format import FullPrecision, NumberFormat
from edgespec_export.operators.half_ops import BFLOAT16_MATMUL, FLOAT16_MATMUL
from edgespec_export.quantization.half import BFloat16Products, Half
from edgespec_export.quantization.int4 import Int4
from edgespec_export.quantization.int4_int8 import Int4Int8
from edgespec_export.quantization.int8 import Int8
from edgespec_export.quantization.int8_groups import Int8Groups
from edgespec_export.quantization.recording import Recording, RotatedRecording
from edgespec_export.quantization.weight_only import WeightOnly

__all__ = ["FORMATS", "Format", "WebFormat"]

Moments = Callable[[str], npt.NDArray[np.float32]]  # of a product's name: XᵀX of what it reads


@dataclass(frozen=True)
class WebFormat:
    """What a format takes on onnxruntime-web (docs/guides/browser.md).

    Attributes:
        weight_bytes: of a weight in the file, about; int4 keeps tables in int8.
        heap_factor: bytes of the heap for each byte of weights, once they are loaded. The runtime
            turns the weights of fp16 into fp32.
    """

    weight_bytes: float
    heap_factor: float


@dataclass(frozen=True)
class Calibrated:
    """How a format is made that rounds by moments.

    Attributes:
        make: makes it with the moments of what products read.
        recording: makes what records them, of the model that the format rounds.
    """

    make: Callable[[Moments], NumberFormat]
    recording: Callable[[], Recording]


@dataclass(frozen=True)
class Format:
    """A number format, and what others must know of it. No field has a default: a new format says
    everything.

    Attributes:
        make: makes it without calibration.
        calibrated: how it rounds better by moments of what products read; None where it does not.
        run_by_kernels: the manifest says it to devices (`Variant.run_by_kernels`).
        row_cost: likewise (`Variant.row_cost`).
        web: None if it was not run in a browser.
    """

    make: Callable[[], NumberFormat]
    calibrated: Calibrated | None
    run_by_kernels: bool
    row_cost: RowCost
    web: WebFormat | None


# Costs are from SmolLM2-135M and the T5 pair (docs/measurements/results.md), those of int4 and
# int8-groups with kernels from docs/measurements/kernels.md and int4.md. int8-groups was measured
# with AVX2; elsewhere it counts as int8. int4-int8 was measured with AMX (a model of 1.5B); with
# AVX2 it is an estimate from single products, and elsewhere it counts as int4.
INT8_COST = RowCost(0.06, 0.02, arithmetic=0.11, arithmetic_on={"avx2": 0.23})
INT4_COST = RowCost(0.045, 0.02, arithmetic=0.16, arithmetic_on={"avx2": 0.22})
INT8_GROUPS_COST = RowCost(0.045, 0.02, arithmetic=0.11, arithmetic_on={"avx2": 0.22})
INT4_INT8_COST = RowCost(0.06, 0.035, arithmetic=0.16, arithmetic_on={"amx": 0.09, "avx2": 0.33})
HALF_COST = RowCost(0.045, 0.03, arithmetic=0.2)
# With AMX an estimate from single products.
BFLOAT16_PRODUCTS_COST = RowCost(0.045, 0.03, arithmetic=0.2, arithmetic_on={"amx": 0.02})

FORMATS = {
    "fp32": Format(
        FullPrecision,
        calibrated=None,
        run_by_kernels=False,
        row_cost=RowCost(0.045, 0.045),
        web=WebFormat(4.0, 2.0),
    ),
    "fp16": Format(
        lambda: Half(np.float16, FLOAT16_MATMUL),
        calibrated=None,
        run_by_kernels=True,
        row_cost=HALF_COST,
        web=WebFormat(2.0, 3.4),
    ),
    "bf16": Format(
        lambda: Half(ml_dtypes.bfloat16, BFLOAT16_MATMUL),
        calibrated=None,
        run_by_kernels=True,
        row_cost=HALF_COST,
        web=None,
    ),
    "bf16-products": Format(
        BFloat16Products,
        calibrated=None,
        run_by_kernels=True,
        row_cost=BFLOAT16_PRODUCTS_COST,
        web=None,
    ),
    "int8": Format(
        Int8, calibrated=None, run_by_kernels=True, row_cost=INT8_COST, web=WebFormat(1.0, 1.6)
    ),
    "int4": Format(
        Int4,
        calibrated=Calibrated(Int4, Recording),
        run_by_kernels=True,
        row_cost=INT4_COST,
        web=WebFormat(0.7, 2.4),
    ),
    "int4-int8": Format(
        Int4Int8,
        calibrated=Calibrated(Int4Int8, RotatedRecording),
        run_by_kernels=True,
        row_cost=INT4_INT8_COST,
        web=None,
    ),
    "int8-groups": Format(
        Int8Groups, calibrated=None, run_by_kernels=True, row_cost=INT8_GROUPS_COST, web=None
    ),
    "int8-weights": Format(
        lambda: WeightOnly(8),
        calibrated=None,
        run_by_kernels=False,
        row_cost=RowCost(0.12, 0.12),
        web=None,
    ),
    "int4-weights": Format(
        lambda: WeightOnly(4),
        calibrated=None,
        run_by_kernels=False,
        row_cost=RowCost(0.17, 0.17),
        web=None,
    ),
}
