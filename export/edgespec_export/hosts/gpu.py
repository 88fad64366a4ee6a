"""What a pair must be to run on the provider of a GPU: formats, and models whose parts have a form
of standard operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edgespec.artifact.manifest import Manifest
from edgespec.errors import EdgespecError, UsageError
from edgespec_export.components.blocks.block import Mixer
from edgespec_export.components.blocks.gated_delta import GatedDelta
from edgespec_export.components.blocks.short_convolution import ShortConvolution
from edgespec_export.components.number_format import FullPrecision, NumberFormat
from edgespec_export.families import Family
from edgespec_export.hosts.host_limits import check_float32_caches, limited_capacity
from edgespec_export.quantization.half import HalfProducts

__all__ = ["CAPACITY", "GPU_FORMATS", "check_family", "check_formats", "with_limited_capacity"]

# Attention reads whole buffers of the cache, so capacity costs time.
CAPACITY = 2048

GPU_FORMATS: dict[str, Callable[[], NumberFormat]] = {"fp32": FullPrecision, "fp16": HalfProducts}

READING = ("eagle", "shared_encoder")  # families of drafts that read what comes to the host
NO_GRAPH: dict[type[Mixer], str] = {
    ShortConvolution: "short convolutions",
    GatedDelta: "recurrent layers",
}


def check_formats(
    target_formats: Sequence[str], draft_formats: Sequence[str], cache_formats: Sequence[str]
) -> None:
    """Raises UsageError for formats that no graph for a GPU has."""
    for what, formats in (("target", target_formats), ("draft", draft_formats)):
        for name in formats:
            if name not in GPU_FORMATS:
                raise UsageError(
                    f"the {what} format {name} has no graph for a GPU; "
                    f"there is: {', '.join(GPU_FORMATS)}"
                )
    check_float32_caches(cache_formats, "a GPU")


def check_family(family: Family) -> None:
    """Raises EdgespecError for a model with parts that no graph for a GPU has yet."""
    missing = [f"has {NO_GRAPH[kind]}" for kind in NO_GRAPH if family.has_mixer(kind)]
    if family.target_inputs is not None and family.family not in READING:
        missing.append(f"reads {family.target_inputs}")
    if missing:
        raise EdgespecError(
            f"{family.label} {' and '.join(missing)}, which edgespec does not export for a GPU "
            "yet; leave --for gpu out"
        )


def with_limited_capacity(manifest: Manifest) -> Manifest:
    """The manifest with caches of at most `CAPACITY` positions."""
    return limited_capacity(manifest, CAPACITY)
