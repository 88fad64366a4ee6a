"""Which number format a model gets where none was asked for; see docs/decisions/0021.

int8 is about four times as small and as fast as fp32. A target that is small enough to be written
twice is written in both formats and compared on a sample of text; a large one becomes int8. So does
a draft, whatever its target is in: the text does not depend on a draft's precision.
"""

from __future__ import annotations

import dataclasses
import logging
import shutil
from pathlib import Path

from edgespec.artifact.hosts import GPU, NPU
from edgespec.artifact.manifest import Exported, Manifest, Variant

__all__ = ["candidate_formats", "usual_draft_formats", "with_chosen_format"]

logger = logging.getLogger("edgespec")

COMPARED_BYTES = 2_000_000_000  # of float32 weights, up to which both formats are written
MAX_KL = 0.02  # nats: SmolLM2-135M has 0.011 and loses 1 % of perplexity
# Of drafts for hosts that run no int8.
HOSTS_DRAFT_FORMATS: dict[str | None, tuple[str, ...]] = {GPU: ("fp32",), NPU: ("fp16",)}


def usual_draft_formats(host: str | None) -> tuple[str, ...]:
    """Those of a draft where none is asked for: int8, if what the export is for runs it."""
    return HOSTS_DRAFT_FORMATS.get(host, ("int8",))


def candidate_formats(float32_bytes: int, measure: bool) -> tuple[str, ...]:
    """The formats to write, the preferred one first.

    Args:
        float32_bytes: the size of the target's weights in float32.
        measure: whether the export may load the models. If not, small targets stay as they are.
    """
    if float32_bytes > COMPARED_BYTES:
        logger.info(
            "target format: int8, by size (%.1f GB in fp32); --target-format fp32 declines",
            float32_bytes / 1e9,
        )
        return ("int8",)
    return ("int8", "fp32") if measure else ("fp32",)


def with_chosen_format(folder: Path, manifest: Manifest) -> Manifest:
    """The manifest and the folder without the format that was not chosen."""
    formats = {variant.weights_format for variant in manifest.target.variants.values()}
    if len(formats) == 1:
        return manifest
    chosen = _chosen(manifest.target)
    variants = {
        name: variant
        for name, variant in manifest.target.variants.items()
        if variant.weights_format == chosen
    }
    (dropped,) = formats - {chosen}
    shutil.rmtree(folder / "target" / dropped)
    return dataclasses.replace(
        manifest,
        target=dataclasses.replace(manifest.target, variants=variants),
        files={
            name: record
            for name, record in manifest.files.items()
            if not name.startswith(f"target/{dropped}/")
        },
    )


def _chosen(target: Exported) -> str:
    """int8 if it verifies exactly here and is near fp32; says why."""
    int8, fp32 = _variant_of(target, "int8"), _variant_of(target, "fp32")
    if not int8.row_invariance or not int8.distance:
        logger.info("target format: fp32, because int8 was not compared with it")
        return "fp32"
    fp32_is_exact = fp32.row_invariance is not None and fp32.row_invariance.is_row_invariant
    if fp32_is_exact and not int8.row_invariance.is_row_invariant:
        logger.info("target format: fp32, because int8 is not row-invariant here")
        return "fp32"
    if not int8.distance.kl <= MAX_KL:  # NaN is too far
        logger.info("target format: fp32, because int8 is too far (more than KL %s)", MAX_KL)
        return "fp32"
    logger.info("target format: int8, near fp32 (%s)", int8.distance)
    return "int8"


def _variant_of(target: Exported, weights_format: str) -> Variant:
    """The variant with weights in this format, with an fp32 cache if there is one."""
    found = (v for v in target.variants.values() if v.weights_format == weights_format)
    return min(found, key=lambda variant: variant.cache_format != "fp32")
