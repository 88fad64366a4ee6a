"""A number format for one model, calibrated if it can be."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from edgespec.device.device import Device
from edgespec_export.calibration.moments import Moments
from edgespec_export.calibration.texts import windows
from edgespec_export.checkpoint.checkpoint import Checkpoint
from edgespec_export.components.number_format import NumberFormat
from edgespec_export.families.family import Family
from edgespec_export.quantization.formats import FORMATS

__all__ = ["Calibration", "calibrated", "obstacle"]

_log = logging.getLogger("edgespec")


@dataclass(frozen=True)
class Calibration:
    """On what formats are calibrated.

    Attributes:
        texts: none rounds each weight to the nearest.
        device: where the model reads them.
    """

    texts: Sequence[str]
    device: Device


@contextmanager
def calibrated(
    name: str, checkpoint: Checkpoint, family: Family, calibration: Calibration, scratch: Path
) -> Iterator[NumberFormat]:
    """The number format `name` for the weights of a model.

    Args:
        scratch: a folder for the model in float32, which is deleted at the end.
    """
    number_format = FORMATS[name]
    how = number_format.calibrated
    if how is None:
        yield number_format.make()
        return
    reason = obstacle(checkpoint, family, calibration)
    if reason is not None:
        _log.info("%s: %s weights rounded to nearest, %s", checkpoint.label, name, reason)
        yield number_format.make()
        return

    @cache
    def moments() -> Moments:
        """Made when the first matrix asks: one that is on a grid already does not."""
        shutil.rmtree(scratch, ignore_errors=True)  # of an export that was ended
        scratch.mkdir(parents=True)
        texts = windows(checkpoint.tokenizer, calibration.texts, family.positions)
        _log.info("%s: %s calibrated on %d tokens", checkpoint.label, name, sum(map(len, texts)))
        return Moments(
            checkpoint.weights,
            family,
            scratch,
            texts,
            calibration.device,
            how.recording,
        )

    try:
        yield how.make(lambda product: moments().of(product))
    finally:
        if scratch.exists():
            shutil.rmtree(scratch)


def obstacle(checkpoint: Checkpoint, family: Family, calibration: Calibration) -> str | None:
    """Why there are no moments for this model; None if there are."""
    if not calibration.texts:
        return "without calibration"
    if family.target_inputs is not None:
        return f"as it reads {family.target_inputs} and not only texts"
    if family.sound is not None:
        return "as it reads sound and not texts"
    if checkpoint.vocabulary is not None:
        return "as its vocabulary is reduced"
    return None
