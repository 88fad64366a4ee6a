"""Short names for what runs models; each is imported when it is first needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from edgespec.contract import READER, Exported, RowInvariance
from edgespec.errors import EdgespecError
from edgespec.model import Model

__all__ = ["describe", "measure_row_invariance", "open_model"]


def open_model(
    folder: Path,
    exported: Exported,
    variant: str,
    *,
    capacity: int | None = None,
    threads: int | None = None,
    min_rows: int = 1,
    max_rows: int | None = None,
    target: Model | None = None,
) -> Model:
    """A model on ONNX Runtime; the arguments are those of `edgespec_runtimes.ort.OrtModel`.

    Args:
        target: of a draft; one that reads its target's hidden states needs it.
    """
    from edgespec_runtimes.ort import OrtModel

    options: dict[str, Any] = {"capacity": capacity, "threads": threads, "min_rows": min_rows}
    if READER not in exported.variants[variant].graphs:
        return OrtModel(folder, exported, variant, max_rows=max_rows, **options)
    from edgespec_runtimes.ort_eagle import OrtEagle

    if not isinstance(target, OrtModel):
        raise EdgespecError(f"{exported.source} reads its target's hidden states; open it with one")
    return OrtEagle(folder, exported, variant, target, **options)


def describe(threads: int | None) -> str:
    """What a measurement was made on: runtime, threads, processor."""
    from edgespec_runtimes import providers

    return providers.describe(threads)


def measure_row_invariance(
    folder: Path, exported: Exported, variant: str, threads: int | None = None
) -> RowInvariance:
    """Measures a variant on this machine; see `edgespec_runtimes.invariance`."""
    from edgespec_runtimes.invariance import LONGEST, measure_row_invariance

    capacity = min(LONGEST, exported.positions or LONGEST)
    model = open_model(folder, exported, variant, capacity=capacity, threads=threads)
    return measure_row_invariance(model, describe(threads))
