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
    target_formats: Sequence[str] | None = ("fp32",),
    draft_formats: Sequence[str] = ("fp32",),
    cache_formats: Sequence[str] = ("fp32",),
    calibration: str = "built-in",
    for_web: bool = False,
    verify: bool = False,
    measure: bool = True,
    replace: bool = False,
    threads: int | None = None,
    progress: Progress = no_progress,
) -> Manifest:
    """Converts a target and a draft to a folder that `edgespec.load` opens.

    All options are checked before a checkpoint is looked up or downloaded. Each step is logged as
    a record of level INFO of the logger "edgespec".

    Args:
        target, draft: a checkpoint folder, a GGUF file, a hub id or a short name. Without a draft
            the pair drafts by prompt lookup.
        folder: must not exist, or hold a pair and `replace` be true.
        target_formats, draft_formats: number formats to write ("fp32", "int8", …); the first is
            the default of the pair. `target_formats` None chooses int8 or fp32 by size or by
            distance (`edgespec_export.default_format`).
        cache_formats: formats of the target's keys and values. Each target format is written with
            each of them; the variants of one target format share their weights.
        calibration: the texts that int4 is calibrated on: "built-in", "none", or a file with texts
            like those of the task, in UTF-8, separated by lines of "%%".
        for_web: only what a browser can use, in files of at most 100 MB, in graphs without
            functions, which open sooner: one format of each model
            (of `edgespec_export.web.WEB_FORMATS`; `target_formats` None is int8), caches of at
            most 2048 positions.
        verify: compare every float32 graph with the original model in transformers. The distance
            of other formats from float32 is measured in any case, where both are exported.
        measure: load the models and measure row invariance and distances. If false, this is left
            to the first use of the pair, as on a machine with too little memory.
        replace: replace the pair in `folder`, if there is one.
        threads: for the measurements; None is the number that the device suggests.
        progress: called with "target fp32" and its size in bytes (all tensors as float32) when a
            variant is begun; returns a function that is called with the bytes done.

    Returns:
        The manifest that was written to `folder`.

    Raises:
        UsageError: an option is wrong, or `folder` must not be written.
        EdgespecError: one line that names the cause, such as a pair that is too large for a
            browser. In both cases `folder` is as it was.
    """
    with needs_extra("export"):
        from edgespec_export.requested_formats import RequestedFormats
        from edgespec_export.run_export import ExportRequest, run_export

    if for_web and target_formats is None:
        target_formats = ("int8",)
    return run_export(
        ExportRequest(
            target=target,
            draft=draft,
            folder=Path(folder),
            formats=RequestedFormats(target_formats, draft_formats, cache_formats),
            calibration=calibration,
            device=Device(threads),
            for_web=for_web,
            verify=verify,
            measure=measure,
            replace=replace,
            progress=progress,
        )
    )
