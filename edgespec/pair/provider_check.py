"""What is to be known of a target on another provider than the processor's.

It may not run there at all. It may be computed in fewer bits than the graph asks for: what then
verifies is exact with respect to itself, and another model than the processor's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from edgespec.artifact.manifest import Distance, Manifest
from edgespec.core.device import CPU, Device, variant_title
from edgespec.errors import EdgespecError, UsageError
from edgespec.pair.runtime import open_model
from edgespec.pair.sample_prompts import sample_texts
from edgespec.pair.tokenizer import load_tokenizer
from edgespec.pair.variant_quality import distance, samples_for

__all__ = ["left_out_if_it_cannot", "say_how_far"]


def say_how_far(
    folder: Path,
    manifest: Manifest,
    variant: str,
    device: Device,
    say: Callable[[str], object],
) -> None:
    """Says how far a target variant is from itself on the processor, unless it runs there."""
    if device.provider != CPU:
        far = _distance_from_processor(folder, manifest, variant, device)
        say(f"target {variant_title(variant, device.provider)}: {far}")


def _distance_from_processor(
    folder: Path, manifest: Manifest, variant: str, device: Device
) -> Distance:
    """On built-in texts."""
    target, tokenizer = manifest.target, load_tokenizer(folder)
    here, there = (
        open_model(folder, target, variant, device=where, min_rows=2)
        for where in (Device(device.threads), device)
    )
    texts = [tokenizer.encode(text).ids for text in sample_texts(target)]
    samples = samples_for(here, texts, target.start_token is not None)
    return distance(here, there, samples, CPU)


@contextmanager
def left_out_if_it_cannot(what: str, provider: str, say: Callable[[str], object]) -> Iterator[None]:
    """A model that does not run on another provider is no reason to stop; on the processor it is,
    and so is what the caller did wrong."""
    try:
        yield
    except EdgespecError as error:
        if provider == CPU or isinstance(error, UsageError):
            raise
        say(f"{what}: left out ({error})")
