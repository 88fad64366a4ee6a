"""How far a target on another provider is from the same target on the processor.

A provider may compute in fewer bits than the graph asks for. What it then speculates on is exact
with respect to itself, and another model than the processor's.
"""

from __future__ import annotations

from pathlib import Path

from edgespec.contract import Distance, Manifest
from edgespec.device import CPU, Device
from edgespec.prompts import sample_texts
from edgespec.quality import distance, samples_for
from edgespec.runtimes import open_model
from edgespec.tokenizer import load_tokenizer

__all__ = ["distance_from_processor"]


def distance_from_processor(
    folder: Path, manifest: Manifest, variant: str, device: Device
) -> Distance:
    """Compares a target variant on a device with itself on the processor, on built-in texts."""
    target, tokenizer = manifest.target, load_tokenizer(folder)
    here, there = (
        open_model(folder, target, variant, device=where, min_rows=2)
        for where in (Device(device.threads), device)
    )
    texts = [tokenizer.encode(text).ids for text in sample_texts(target)]
    samples = samples_for(here, texts, target.start_token is not None)
    return distance(here, there, samples, CPU)
