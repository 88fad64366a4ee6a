"""Exporting, as callers and the command line ask for it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edgespec.artifact.manifest import Manifest
from edgespec.device.device import Device
from edgespec.errors import needs_extra
from edgespec_export.progress import Progress, no_progress

__all__ = ["export_pair"]


def export_pair(
    target: str,
    draft: str | None,
    folder: str | Path,
    *,
    adapter: str | None = None,
    target_formats: Sequence[str] | None = ("fp32",),
    draft_formats: Sequence[str] = ("fp32",),
    cache_formats: Sequence[str] = ("fp32",),
    calibration: str = "built-in",
    host: str | None = None,
    gammas: Sequence[int] = (),
    capacity: int | None = None,
    long_texts: bool = False,
    verify: bool = False,
    measure: bool = True,
    replace: bool = False,
    threads: int | None = None,
    progress: Progress = no_progress,
) -> Manifest:
    """Converts a target and a draft to a folder that `edgespec.load` opens; returns its manifest.

    Args:
        target, draft: a checkpoint folder, a GGUF file, a hub id or a short name. Without a draft
            the pair drafts by prompt lookup. adapter: a LoRA of the target, a folder or a hub id.
        folder: must not exist, or hold a pair and `replace` be true, which replaces it.
        target_formats, draft_formats: number formats to write ("fp32", "int8", …); the first is
            the default of the pair. `target_formats` None: see `requested_formats`.
        cache_formats: formats of the target's keys and values, for each of its number formats.
        calibration: texts for int4: "built-in", "none", or a file of them (lines of "%%" between).
        host: "web" (a browser), "gpu" or "npu"; None: any. progress: of bytes that are written.
        gammas, capacity: for an NPU: drafted tokens, of each a graph; positions of the cache.
        long_texts: take the factors for long texts in every text; see the module
            `edgespec_export.families.rotary.longrope`.
        verify: compare every float32 graph with the original model in transformers.
        measure: measure row invariance, and distances from float32; else the first use does.
        threads: for the measurements; None: as many as the device suggests.

    Raises:
        UsageError: an option is wrong, or `folder` must not be written.
        EdgespecError: one line with the cause. In both cases `folder` is as it was.
    """
    with needs_extra("export"):
        from edgespec_export.requested_formats import formats_for
        from edgespec_export.run_export import ExportRequest, run_export

    request = ExportRequest(
        target=target,
        draft=draft,
        adapter=adapter,
        folder=Path(folder),
        formats=formats_for(host, target_formats, draft_formats, cache_formats),
        calibration=calibration,
        device=Device(threads),
        host=host,
        gammas=tuple(gammas),
        capacity=capacity,
        long_texts=long_texts,
        verify=verify,
        measure=measure,
        replace=replace,
        progress=progress,
    )
    return run_export(request)
