"""Logits of one text, computed in several calls with rejected tokens between them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgespec.artifact.manifest import read_manifest
from edgespec.pair.opening.runtime import open_model

__all__ = ["TEXT", "scored_in_pieces"]

TEXT = [int(token) for token in np.random.default_rng(3).integers(5, 250, size=24)]


def scored_in_pieces(
    folder: Path, variant: str = "fp32", **options: Any
) -> npt.NDArray[np.float32]:
    """Logits of `TEXT` by a pair's target, in calls of seven rows, after rewinds."""
    model = open_model(folder, read_manifest(folder).target, variant, min_rows=2, **options)
    rows = [model.prefill(TEXT[:4]), *TEXT[4:]]
    calls = []
    for first in range(0, len(rows), 7):
        model.score([7] * 5)  # rejected
        model.rewind(model.length - 5)
        calls.append(model.score(rows[first : first + 7]).copy())
    return np.concatenate(calls)
