"""The steps of an export: reads two checkpoints, writes a folder, measures it, renames it."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgespec import __version__
from edgespec.artifact.manifest import Exported, Manifest, write_manifest
from edgespec.device.device import Device
from edgespec_export import web
from edgespec_export.calibration.calibrated import Calibration
from edgespec_export.calibration.texts import calibration_texts
from edgespec_export.checkpoint import sources as checkpoint_sources
from edgespec_export.checkpoint.sources import Source
from edgespec_export.default_format import with_chosen_format
from edgespec_export.families.drafts.eagle3.head_checkpoint import open_checkpoints
from edgespec_export.measure_variants import measured
from edgespec_export.progress import Progress
from edgespec_export.requested_formats import RequestedFormats
from edgespec_export.staging import check_free, staged, stamps
from edgespec_export.transformers_comparison import check_same, need_transformers
from edgespec_export.write_model import ModelWriter
from edgespec_export.write_pair import write_pair

__all__ = ["ExportRequest", "run_export"]

_log = logging.getLogger("edgespec")


@dataclass(frozen=True, kw_only=True)
class ExportRequest:
    """What `edgespec_export.export_pair.export_pair` was asked for; its arguments say more."""

    target: str
    draft: str | None
    adapter: str | None
    folder: Path
    formats: RequestedFormats
    calibration: str
    device: Device
    for_web: bool
    verify: bool
    measure: bool
    replace: bool
    progress: Progress


def run_export(request: ExportRequest) -> Manifest:
    """Exports a pair; everything that needs no checkpoint is checked before one is looked up.

    Raises:
        UsageError, EdgespecError: as `edgespec_export.export_pair.export_pair`.
    """
    request.formats.check(request.for_web)
    calibration = Calibration(calibration_texts(request.calibration), request.device)
    check_free(request.folder, replace=request.replace)
    if request.verify:
        need_transformers()
    sources = [checkpoint_sources.resolve(request.target, request.adapter)]
    if request.draft is not None:
        sources.append(checkpoint_sources.resolve(request.draft))
    recipe = _recipe(sources, request, calibration.texts)
    with staged(request.folder, replace=request.replace, recipe=recipe) as folder:
        manifest = _written(request, sources, calibration, folder)
        if request.verify:
            for source, model in zip(sources, _models(manifest), strict=True):
                check_same(source, folder, model, manifest.languages, request.device)
        if request.measure:
            manifest = measured(folder, manifest, request.device)
        if request.formats.target is None:
            manifest = with_chosen_format(folder, manifest)
        write_manifest(manifest, folder)
    if request.for_web:
        web.log_sizes(manifest)
    return manifest


def _written(
    request: ExportRequest, sources: Sequence[Source], calibration: Calibration, folder: Path
) -> Manifest:
    """Writes the models into `folder`; for the web only those that a browser can hold."""
    for role, source in zip(("target", "draft"), sources, strict=False):
        _log.info("%s: %s", role, source.label)
    target, *others = open_checkpoints(sources[0], sources[1] if len(sources) > 1 else None)
    draft = others[0] if others else None
    formats = request.formats
    target_formats = formats.target_formats(target.float32_bytes, request.measure)
    if request.for_web:
        web.check_model(target.config.get("model_type"))
        sizes = [checkpoint.float32_bytes for checkpoint in (target, *others)]
        web.check_estimate(list(zip(sizes, [target_formats[0], formats.draft[0]], strict=False)))
    writer = ModelWriter(
        folder,
        calibration,
        request.progress,
        shard_bytes=web.SHARD_BYTES if request.for_web else sys.maxsize,
        inline=request.for_web,
    )
    manifest = write_pair(
        target,
        draft,
        writer,
        target_formats=target_formats,
        draft_formats=formats.draft,
        cache_formats=formats.caches,
    )
    if request.for_web:
        manifest = web.with_limited_capacity(manifest)
        web.check_memory(web.memory(manifest))
    return manifest


def _recipe(sources: Sequence[Source], request: ExportRequest, texts: Sequence[str]) -> str:
    """The inputs of an export as text: the same recipe gives the same bytes."""
    formats = request.formats
    target_formats = formats.target or ["chosen"]
    web_only = ["web"] if request.for_web else []
    options = [target_formats, formats.draft, formats.caches, texts, web_only]
    paths = [path for source in sources for path in (source.path, source.adapter) if path]
    files = [stamps(path) for path in paths]
    return json.dumps({"edgespec": __version__, "files": files, "options": options})


def _models(manifest: Manifest) -> Iterator[Exported]:
    yield manifest.target
    if manifest.draft is not None:
        yield manifest.draft
