"""An export: on request, or when a model is first used."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edgespec.errors import needs_extra

__all__ = ["BUILT_IN", "ExportRequest", "export_request", "run_export"]

BUILT_IN = "built-in"  # texts


@dataclass(frozen=True)
class ExportRequest:
    """What is to be exported, and how.

    Attributes:
        target, draft: names as `edgespec_export.checkpoint.sources.look_up` takes them.
        target_formats: None leaves the choice between int8 and fp32 to the exporter.
        calibration: "built-in", "none" or a file (`export_pair`).
        draft_tokens: that the draft proposes; None: all.
        host: what runs the pair (`export_pair`).
        adapter: of the target; a name like its own.
        gammas, capacity: of graphs for an NPU (`export_pair`).
        long_texts: of a model with longrope (`export_pair`).
    """

    target: str
    draft: str | None
    target_formats: tuple[str, ...] | None
    draft_formats: tuple[str, ...]
    cache_formats: tuple[str, ...]
    calibration: str = BUILT_IN
    draft_tokens: int | None = None
    host: str | None = None
    adapter: str | None = None
    gammas: tuple[int, ...] = ()
    capacity: int | None = None
    long_texts: bool = False


def export_request(
    target: str,
    draft: str | None = None,
    *,
    no_draft: bool = False,
    target_formats: tuple[str, ...] | None = None,
    draft_formats: tuple[str, ...] | None = None,
    cache_formats: tuple[str, ...] | None = None,
    calibration: str = BUILT_IN,
    draft_tokens: int | None = None,
    host: str | None = None,
    adapter: str | None = None,
    gammas: tuple[int, ...] = (),
    capacity: int | None = None,
    long_texts: bool = False,
) -> ExportRequest:
    """A request, with defaults for what was not asked for.

    The draft comes from the catalogue. It is in int8; for a GPU in fp32, for an NPU in fp16.
    """
    from edgespec_export.default_format import usual_draft_formats

    if draft is None and not no_draft:
        draft = _draft_from_catalogue(target)
    return ExportRequest(
        target,
        draft,
        target_formats,
        draft_formats or usual_draft_formats(host),
        cache_formats or ("fp32",),
        calibration,
        draft_tokens,
        host,
        adapter,
        gammas,
        capacity,
        long_texts,
    )


def _draft_from_catalogue(target: str) -> str | None:
    """The proposed draft, or None."""
    from edgespec_export.catalogue import proposed_draft
    from edgespec_export.checkpoint.sources import look_up

    proposal = proposed_draft(look_up(target).repository)
    return proposal.draft if proposal else None


def run_export(
    request: ExportRequest,
    folder: Path,
    *,
    verify: bool = False,
    measure: bool = True,
    replace: bool = False,
    threads: int | None = None,
) -> None:
    """Exports with progress on stderr; `folder` appears whole or not at all."""
    with needs_extra("export"):
        from edgespec_export.export_pair import export_pair
        from edgespec_export.progress import byte_bars

    with byte_bars() as progress:
        export_pair(
            request.target,
            request.draft,
            folder,
            adapter=request.adapter,
            target_formats=request.target_formats,
            draft_formats=request.draft_formats,
            cache_formats=request.cache_formats,
            calibration=request.calibration,
            draft_tokens=request.draft_tokens,
            host=request.host,
            gammas=request.gammas,
            capacity=request.capacity,
            long_texts=request.long_texts,
            verify=verify,
            measure=measure,
            replace=replace,
            threads=threads,
            progress=progress,
        )
