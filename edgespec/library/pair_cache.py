"""Exported pairs in the user's cache: where they are, and which one a name means."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from pathlib import Path

from edgespec.artifact.hosts import NPU
from edgespec.artifact.kept.used_mark import pairs_home
from edgespec.artifact.manifest import MANIFEST
from edgespec.errors import UsageError, looks_like_a_path
from edgespec.library.exporting import ExportRequest, export_request, run_export
from edgespec.library.kept_pairs import bytes_of, older_line, size
from edgespec.version import VERSION

__all__ = ["cached_folder", "describe_draft", "name_for_commands", "pair_folder", "pairs_home"]


logger = logging.getLogger("edgespec")


def pair_folder(name: str, target_format: str | None = None) -> Path:
    """The exported folder that a command or a caller was given.

    Args:
        name: an exported folder; the name of one in the cache; or what `edgespec export` takes as
            TARGET, which is exported into the cache now unless it is there.
        target_format: the format to export; None leaves the choice to the exporter.

    Raises:
        EdgespecError: nothing has that name, or it cannot be exported.
        UsageError: the name is empty.
    """
    if not name:
        raise UsageError("the pair's name is empty; give a model's name or a folder")
    path = Path(name)
    if (path / MANIFEST).is_file():
        return path
    kept = pairs_home() / name.replace("/", "--")  # owner/name was pulled from a hub
    if not path.is_absolute() and not path.exists() and (kept / MANIFEST).is_file():
        return kept
    if _is_plain_path(name):
        return path  # `read_manifest` says what is missing
    request = export_request(name, target_formats=(target_format,) if target_format else None)
    folder = cached_folder(request)
    if not (folder / MANIFEST).is_file():
        from_hub = "no folder here, so the hub's model; " if name == _hub_id(request) else ""
        logger.info("%s: %sused for the first time, exporting to %s", name, from_hub, folder)
        logger.info(describe_draft(request))
        run_export(request, folder)
        logger.info("%s: ready, %s", folder, size(bytes_of(folder)))
        if line := older_line(folder):
            logger.info(line)
    return folder


def _is_plain_path(name: str) -> bool:
    """Whether a name can only mean a folder of an exported pair, which is not one: it is no name of
    a model, and no checkpoint."""
    path = Path(name)
    if path.is_dir():
        return not ((path / "config.json").is_file() or any(path.glob("*.gguf")))
    if path.suffix == ".gguf":
        return False
    return looks_like_a_path(name) or (len(path.parts) > 1 and path.parent.is_dir())


def cached_folder(request: ExportRequest) -> Path:
    """The folder in the cache for a request: "target--draft--digest".

    The digest is of the checkpoints (path, size and time of their files, or hub id and revision),
    the formats, the calibration, what it is for and the version of this package.
    """
    sources = [name for name in (request.target, request.adapter, request.draft) if name]
    formats = (request.target_formats, request.draft_formats, request.cache_formats)
    identities = [_identity(name) for name in sources]
    how: list[object] = [formats, request.calibration, *([request.host] if request.host else [])]
    how += [request.gammas, request.capacity] if request.host == NPU else []
    how += ["long texts"] if request.long_texts else []
    how += [] if request.draft_tokens is None else [f"{request.draft_tokens} tokens"]
    recipe = json.dumps([VERSION, identities, *how])
    digest = hashlib.sha256(recipe.encode()).hexdigest()[:8]
    names = [_short(name) for name in sources] + (["lookup"] if request.draft is None else [])
    return pairs_home() / "--".join([*names, digest])


def name_for_commands(request: ExportRequest, folder: Path) -> str:
    """What other commands find a pair in the cache by: its target where all is as usual."""
    return request.target if request == export_request(request.target) else folder.name


def describe_draft(request: ExportRequest) -> str:
    """A line on the draft that the catalogue proposed."""
    from edgespec_export.catalogue import proposed_draft
    from edgespec_export.checkpoint.sources import look_up

    proposal = proposed_draft(look_up(request.target).repository)
    if proposal is None:
        return f"draft: none is known for {request.target}, so the pair drafts by prompt lookup"
    return (
        f"draft: {proposal.draft}, because {proposal.reason}; to leave it out: "
        f"edgespec export {request.target} --no-draft"
    )


def _identity(name: str) -> object:
    """What tells one checkpoint from another, without reading or downloading it."""
    from edgespec_export.checkpoint.sources import look_up
    from edgespec_export.staging import stamps

    found = look_up(name)
    return stamps(found.path) if found.path else [found.repository, found.revision]


def _hub_id(request: ExportRequest) -> str:
    """Of the target, as it was given; empty for a checkpoint on this machine."""
    from edgespec_export.checkpoint.sources import look_up

    found = look_up(request.target)
    return "@".join(filter(None, (found.repository, found.revision)))


def _short(name: str) -> str:
    """A part of a folder's name, from a path or a hub id."""
    from edgespec_export.checkpoint.sources import look_up

    found = look_up(name)
    last = found.path.resolve().name if found.path else found.repository.rpartition("/")[2]
    return re.sub(r"[^\w.-]+", "-", last.removesuffix(".gguf")).strip("-.") or "model"
