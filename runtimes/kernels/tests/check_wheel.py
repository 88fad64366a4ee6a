"""Checks an installed wheel: the library is loaded by ONNX Runtime, and a kernel runs.

python check_wheel.py [TARGET]      TARGET: the instruction set that must be in use
"""

from __future__ import annotations

import sys

import edgespec_kernels
import numpy as np
import onnxruntime as ort
from edgespec_kernels.sampling_kernels import SamplingKernels


def main() -> None:
    target = edgespec_kernels.target()
    if target is None:
        sys.exit(f"no kernels run here: {edgespec_kernels.problem()}")
    if sys.argv[1:] not in ([], [target]):
        sys.exit(f"the kernels of {target} run, not those of {sys.argv[1]}")
    options = ort.SessionOptions()
    options.register_custom_ops_library(str(edgespec_kernels.library()))
    row = np.linspace(-9, 9, 1000, dtype=np.float32)
    weights = np.empty_like(row)
    total = SamplingKernels().exp_weights(row, 9.0, 1.0, weights)
    exact = np.exp(row.astype(np.float64) - 9)
    assert np.allclose(weights, exact, rtol=1e-6)
    assert abs(total - exact.sum()) < 1e-4
    print(f"edgespec-kernels {edgespec_kernels.__version__}: {target} runs")


if __name__ == "__main__":
    main()
