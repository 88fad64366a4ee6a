"""What a pair must be to run on the provider of a GPU: formats, and models whose parts have a form
of standard operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from edgespec.artifact.manifest import Manifest
from edgespec.errors import EdgespecError, UsageError
from edgespec_export.components.blocks.block import AttentionBlock
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
NO_GRAPH = {ShortConvolution: "short convolutions", GatedDelta: "recurrent layers"}


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
    missing = sorted(set(_missing(family)))
    if missing:
        raise EdgespecError(
            f"{family.label} has {' and '.join(missing)}, which no graph for a GPU has yet; "
            "export it without --for gpu"
        )


def with_limited_capacity(manifest: Manifest) -> Manifest:
    """The manifest with caches of at most `CAPACITY` positions."""
    return limited_capacity(manifest, CAPACITY)


def _missing(family: Family) -> Iterator[str]:
    """What a family has and no graph for a GPU."""
    if family.target_inputs is not None and family.family not in READING:
        yield f"a draft that reads {family.target_inputs}"
    for block in family.blocks():
        if isinstance(block, AttentionBlock) and type(block.mixer) in NO_GRAPH:
            yield NO_GRAPH[type(block.mixer)]
