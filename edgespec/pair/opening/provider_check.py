"""Checks of a target on another provider than the processor's.

It may not run there at all. It may be computed in fewer bits than the graph asks for: it then still
verifies exactly with respect to itself, but it is another model than on the processor.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edgespec.artifact.manifest import Manifest
from edgespec.artifact.row_invariance import Distance
from edgespec.device.device import CPU, Device, variant_title
from edgespec.errors import EdgespecError, UsageError
from edgespec.pair.opening.runtime import open_model
from edgespec.pair.opening.sample_prompts import sample_texts
from edgespec.pair.opening.variant_quality import distance, samples_for
from edgespec.pair.tokenizer import load_tokenizer

__all__ = ["left_out_if_it_cannot", "log_distance"]

logger = logging.getLogger("edgespec")


def log_distance(folder: Path, manifest: Manifest, variant: str, device: Device) -> None:
    """Logs how far a target variant on another provider is from itself on the processor."""
    if device.provider != CPU:
        found = _distance_from_processor(folder, manifest, variant, device)
        logger.info("target %s: %s", variant_title(variant, device.provider), found)


def _distance_from_processor(
    folder: Path, manifest: Manifest, variant: str, device: Device
) -> Distance:
    """The distance on built-in texts."""
    target, tokenizer = manifest.target, load_tokenizer(folder)
    here, there = (
        open_model(folder, target, variant, device=where, min_rows=2)
        for where in (Device(device.threads), device)
    )
    texts = [tokenizer.encode(text).ids for text in sample_texts(target)]
    samples = samples_for(here, texts, target.is_encoder_decoder)
    return distance(here, there, samples, CPU)


@contextmanager
def left_out_if_it_cannot(what: str, provider: str) -> Iterator[None]:
    """Logs the error of a model that does not run on another provider, and continues without it.

    Errors on the processor, and usage errors, are raised.
    """
    try:
        yield
    except EdgespecError as error:
        if provider == CPU or isinstance(error, UsageError):
            raise
        logger.info("%s: left out (%s)", what, error)
