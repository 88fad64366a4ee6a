"""Ranges of what the products of a model read and make, measured on texts."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt

from edgespec.device.device import Device
from edgespec.errors import EdgespecError
from edgespec_export.calibration.calibrated import Calibration, obstacle
from edgespec_export.calibration.reading_model import ReadingModel
from edgespec_export.calibration.texts import windows
from edgespec_export.checkpoint.checkpoint import Checkpoint
from edgespec_export.components.number_format import FullPrecision
from edgespec_export.families.family import Family
from edgespec_export.quantization.activations.qdq import Range
from edgespec_export.quantization.activations.range_recording import RangeRecording, range_name

__all__ = ["measured_ranges"]

Ranges = dict[str, tuple[Range, Range]]
MOST_TOKENS = 8192  # ranges change little with more
_log = logging.getLogger("edgespec")


@contextmanager
def measured_ranges(
    checkpoint: Checkpoint, family: Family, calibration: Calibration, scratch: Path
) -> Iterator[Ranges]:
    """The ranges of each product's input and result, by the name of its matrix.

    Args:
        scratch: a folder for the model in float32, which is deleted at the end.

    Raises:
        EdgespecError: there are no texts, or the model cannot read them.
    """
    reason = obstacle(checkpoint, family, calibration)
    if reason is not None:
        raise EdgespecError(
            f"{checkpoint.label}: activations in whole numbers need the ranges that texts show, "
            f"and there are none, {reason}; take fp16, or --calibration built-in"
        )
    texts = windows(checkpoint.tokenizer, calibration.texts, family.positions)
    texts = _first(texts, MOST_TOKENS)
    _log.info("%s: ranges measured on %d tokens", checkpoint.label, sum(map(len, texts)))
    shutil.rmtree(scratch, ignore_errors=True)  # of an export that was ended
    scratch.mkdir(parents=True)
    try:
        yield _measured(checkpoint, family, scratch, texts, calibration.device)
    finally:
        shutil.rmtree(scratch)


def _measured(
    checkpoint: Checkpoint,
    family: Family,
    folder: Path,
    texts: Sequence[Sequence[int]],
    device: Device,
) -> Ranges:
    model = ReadingModel(checkpoint.weights, family, folder, texts, device, FullPrecision())
    found: Ranges = {}
    for name in family.graphs:
        recording = RangeRecording()
        graph = model.emitted(name, recording)
        outputs = [range_name(product) for product in recording.products]
        session = model.session(graph, outputs)
        ends = [session.run(outputs, inputs) for inputs in model.inputs(name, session)]
        for product, several in zip(recording.products, zip(*ends, strict=True), strict=True):
            found[product] = _joined(np.array(several, np.float32))
    return found


def _joined(ends: npt.NDArray[np.float32]) -> tuple[Range, Range]:
    """The ranges of all texts, from those of each, [texts, 4]."""
    low, high = ends.min(axis=0), ends.max(axis=0)
    return Range(float(low[0]), float(high[1])), Range(float(low[2]), float(high[3]))


def _first(texts: Sequence[list[int]], count: int) -> list[list[int]]:
    """Texts up to so many tokens together; the first one at least."""
    found: list[list[int]] = []
    for text in texts:
        if found and sum(map(len, found)) + len(text) > count:
            break
        found.append(text)
    return found
