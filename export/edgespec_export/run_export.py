"""The steps of an export: reads two checkpoints, writes a folder, measures it, renames it."""

from __future__ import annotations

import dataclasses
import json
import logging
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgespec.artifact.hosts import GPU, NPU, WEB
from edgespec.artifact.manifest import Exported, Manifest, write_manifest
from edgespec.device.device import Device
from edgespec.errors import UsageError
from edgespec.version import VERSION
from edgespec_export.calibration.calibrated import Calibration
from edgespec_export.calibration.texts import BUILT_IN, NONE, calibration_texts
from edgespec_export.changes.fewer_tokens import FewerTokens
from edgespec_export.changes.long_texts import with_long_factors
from edgespec_export.checkpoint import sources as checkpoint_sources
from edgespec_export.checkpoint.sources import Source
from edgespec_export.default_format import with_chosen_format
from edgespec_export.families.drafts.eagle3.head_checkpoint import open_checkpoints
from edgespec_export.families.rotary.longrope import has_longrope
from edgespec_export.hosts import gpu, npu, web
from edgespec_export.measure_variants import measured, with_row_invariance
from edgespec_export.progress import Progress
from edgespec_export.requested_formats import RequestedFormats
from edgespec_export.staging import check_free, staged, stamps
from edgespec_export.transformers_comparison import check_same, need_transformers
from edgespec_export.write_model import ModelWriter
from edgespec_export.write_pair import write_pair

__all__ = ["ExportRequest", "run_export"]

FEWEST_TOKENS = 16  # that a draft may propose
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
    draft_tokens: int | None
    device: Device
    host: str | None
    gammas: Sequence[int]
    capacity: int | None
    long_texts: bool
    verify: bool
    measure: bool
    replace: bool
    progress: Progress


def run_export(request: ExportRequest) -> Manifest:
    """Exports a pair; everything that needs no checkpoint is checked before one is looked up.

    Raises:
        UsageError, EdgespecError: as `edgespec_export.export_pair.export_pair`.
    """
    request.formats.check(request.host)
    _fixed_calls(request)  # for its check
    if request.long_texts and request.verify:
        raise UsageError(
            "--verify compares short texts, for which transformers takes the other factors of "
            "longrope; leave it out with --long-texts"
        )
    _check_draft_tokens(request)
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
        chooses = request.formats.target is None
        if request.measure:
            manifest = measured(folder, manifest, request.device, chooses=chooses)
        if chooses:
            manifest = with_chosen_format(folder, manifest)
        if request.measure:
            manifest = with_row_invariance(folder, manifest, request.device)
        write_manifest(manifest, folder)
    if request.host == WEB:
        web.log_sizes(manifest)
    return manifest


def _written(
    request: ExportRequest, sources: Sequence[Source], calibration: Calibration, folder: Path
) -> Manifest:
    """Writes the models into `folder`; for a host only those that it can run."""
    for role, source in zip(("target", "draft"), sources, strict=False):
        _log.info("%s: %s", role, source.label)
    target, *others = open_checkpoints(sources[0], sources[1] if len(sources) > 1 else None)
    if request.long_texts:
        target, *others = with_long_factors([target, *others])
    elif has_longrope(target.config):
        _log.info("%s: its texts end at its original length; --long-texts goes on", target.label)
    draft = others[0] if others else None
    formats = request.formats
    target_formats = formats.target_formats(target.float32_bytes, request.measure)
    if request.host == WEB:
        web.check_model(target.config.get("model_type"))
        sizes = [checkpoint.float32_bytes for checkpoint in (target, *others)]
        web.check_estimate(list(zip(sizes, [target_formats[0], formats.draft[0]], strict=False)))
    writer = ModelWriter(
        folder,
        calibration,
        request.progress,
        shard_bytes=web.SHARD_BYTES if request.host == WEB else sys.maxsize,
        host=request.host,
        fixed=_fixed_calls(request),
    )
    manifest = write_pair(
        target,
        draft,
        writer,
        target_formats=target_formats,
        draft_formats=formats.draft,
        cache_formats=formats.caches,
        fewer=_fewer_tokens(request),
    )
    if request.host == WEB:
        manifest = web.with_limited_capacity(manifest)
        web.check_memory(web.memory(manifest))
    elif request.host == GPU:
        manifest = gpu.with_limited_capacity(manifest)
    return dataclasses.replace(manifest, host=request.host)


def _check_draft_tokens(request: ExportRequest) -> None:
    """Raises UsageError if the draft cannot have so few tokens, or there is none."""
    count = request.draft_tokens
    if count is not None and count < FEWEST_TOKENS:
        raise UsageError(f"draft_tokens is {count}; give {FEWEST_TOKENS} or more, or leave it out")
    if count is not None and request.draft is None:
        raise UsageError("draft_tokens is given without a draft; name one, or leave it out")


def _fewer_tokens(request: ExportRequest) -> FewerTokens | None:
    """What the draft proposes: the tokens of the texts for calibration before others."""
    if request.draft_tokens is None:
        return None
    asked = BUILT_IN if request.calibration == NONE else request.calibration
    return FewerTokens(request.draft_tokens, calibration_texts(asked))


def _fixed_calls(request: ExportRequest) -> npu.FixedCalls | None:
    """The calls that graphs for an NPU are made for; None for others.

    Raises:
        UsageError: one of them is out of range, or calls are given and no NPU.
    """
    if request.host == NPU:
        return npu.fixed_calls(request.gammas, request.capacity)
    if request.gammas or request.capacity is not None:
        raise UsageError(
            "only graphs for an NPU are exported for a gamma and a capacity; add --for npu, or "
            "give them when the pair is used"
        )
    return None


def _recipe(sources: Sequence[Source], request: ExportRequest, texts: Sequence[str]) -> str:
    """The inputs of an export as text: the same recipe gives the same bytes."""
    formats = request.formats
    target_formats = formats.target or ["chosen"]
    hosts = [request.host] if request.host else []
    calls = [*request.gammas, request.capacity] if request.host == NPU else []
    longrope = ["long texts"] if request.long_texts else []
    fewer = [] if request.draft_tokens is None else [f"{request.draft_tokens} tokens"]
    options = [
        *(target_formats, formats.draft, formats.caches, texts, hosts, calls),
        *(*longrope, *fewer),
    ]
    paths = [path for source in sources for path in (source.path, source.adapter) if path]
    files = [stamps(path) for path in paths]
    return json.dumps({"edgespec": VERSION, "files": files, "options": options})


def _models(manifest: Manifest) -> Iterator[Exported]:
    yield manifest.target
    if manifest.draft is not None:
        yield manifest.draft
