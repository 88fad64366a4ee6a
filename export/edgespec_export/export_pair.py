"""Exporting, as callers and the command line ask for it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edgespec.artifact.hosts import GPU, NPU, WEB
from edgespec.artifact.manifest import Manifest
from edgespec.device.device import Device
from edgespec.errors import needs_extra
from edgespec_export.progress import Progress, no_progress

__all__ = ["export_pair"]

DEFAULT_FORMATS: dict[str | None, tuple[str, ...]] = {
    WEB: ("int8",),
    GPU: ("fp32",),
    NPU: ("fp16",),
}


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
    verify: bool = False,
    measure: bool = True,
    replace: bool = False,
    threads: int | None = None,
    progress: Progress = no_progress,
) -> Manifest:
    """Converts a target and a draft to a folder that `edgespec.load` opens; returns its manifest.

    Options are checked before a checkpoint is looked up; steps are logged to "edgespec" at INFO.

    Args:
        target, draft: a checkpoint folder, a GGUF file, a hub id or a short name. Without a draft
            the pair drafts by prompt lookup. adapter: a LoRA of the target, a folder or a hub id.
        folder: must not exist, or hold a pair and `replace` be true, which replaces it.
        target_formats, draft_formats: number formats to write ("fp32", "int8", …); the first is
            the default of the pair. `target_formats` None: see `default_format`.
        cache_formats: formats of the target's keys and values, for each of its number formats.
        calibration: texts for int4: "built-in", "none", or a file of them (lines of "%%" between).
        host: "web", a browser, `target_formats` None as int8; "gpu", None as fp32; "npu", None as
            fp16; None: any.
        gammas: for an NPU: of each, a graph for a call that verifies so many drafted tokens.
        capacity: for an NPU: positions of the cache, which every call attends to.
        verify: compare every float32 graph with the original model in transformers.
        measure: measure row invariance, and distances from float32; else the first use does.
        threads: for the measurements; None is the number that the device suggests.
        progress: see `edgespec_export.progress`.

    Raises:
        UsageError: an option is wrong, or `folder` must not be written.
        EdgespecError: one line with the cause. In both cases `folder` is as it was.
    """
    with needs_extra("export"):
        from edgespec_export.requested_formats import RequestedFormats
        from edgespec_export.run_export import ExportRequest, run_export

    if target_formats is None:
        target_formats = DEFAULT_FORMATS.get(host)
    request = ExportRequest(
        target=target,
        draft=draft,
        adapter=adapter,
        folder=Path(folder),
        formats=RequestedFormats(target_formats, draft_formats, cache_formats),
        calibration=calibration,
        device=Device(threads),
        host=host,
        gammas=tuple(gammas),
        capacity=capacity,
        verify=verify,
        measure=measure,
        replace=replace,
        progress=progress,
    )
    return run_export(request)
