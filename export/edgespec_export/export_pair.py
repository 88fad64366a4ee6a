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
    draft_tokens: int | None = None,
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
        target, draft, adapter: folders or hub ids; the first two also GGUF files or short names.
        folder: must not exist, or hold a pair and `replace` be true, which replaces it.
        target_formats, draft_formats, cache_formats: of weights, and of the target's keys and
            values; the first is the default. Of a target None: see `requested_formats`.
        calibration: texts for int4: "built-in", "none", or a file of them (lines of "%%" between).
        draft_tokens: how many tokens the draft proposes, the frequent ones; None: all.
        host: "web" (a browser), "gpu" or "npu"; None: any. progress: of bytes that are written.
        gammas, capacity: for an NPU: drafted tokens, of each a graph; positions of the cache.
        long_texts: longrope's factors for long texts. verify: compare with transformers' model.
        measure: row invariance and distances from float32, by `threads`; else the first use does.

    Raises:
        UsageError, EdgespecError: one line with the cause; `folder` is as it was.
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
        draft_tokens=draft_tokens,
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
