"""Pairs whose targets look large, so that drafts are guessed to pay."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

from manifests import edit_manifest

PADDING = 0x2800000  # bytes; a protobuf's reader passes over fields that it does not know
UNKNOWN_FIELD = b"\xa2\x06\x80\x80\x80\x14"  # number 100, of so many bytes


def look_large(folder: Path) -> None:
    """Makes a pair's target look large."""

    def pad(manifest: dict[str, Any]) -> None:
        graph = _target(manifest)["graphs"]["decoder"]
        with (folder / graph).open("ab") as file:
            file.write(UNKNOWN_FIELD + bytes(PADDING))
        content = (folder / graph).read_bytes()
        manifest["files"][graph].update(bytes=len(content), sha256=sha256(content).hexdigest())

    edit_manifest(folder, pad)


def find_of_target(folder: Path, **found: Any) -> None:
    """Changes what was measured of a pair's target."""
    edit_manifest(folder, lambda manifest: _target(manifest)["row_invariance"].update(found))


def forget_findings(folder: Path) -> dict[str, Any]:
    """Drops what was measured of a pair's target, at export and by whoever loaded the folder since;
    returns the first."""
    found: list[dict[str, Any]] = []

    def drop(manifest: dict[str, Any]) -> None:
        target = _target(manifest)
        found.append(target["row_invariance"])
        target["row_invariance"] = None

    edit_manifest(folder, drop)
    (folder / "row_invariance.json").unlink(missing_ok=True)
    return found[0]


def cost_alike(folder: Path) -> None:
    """Guesses of what positions cost no longer depend on the instruction set: the library and the
    Python kernels may be compiled for two."""

    def drop(manifest: dict[str, Any]) -> None:
        for part in ("target", "draft"):
            for variant in manifest[part]["variants"].values():
                variant["row_cost"]["arithmetic_on"] = {}

    edit_manifest(folder, drop)


def _target(manifest: dict[str, Any]) -> dict[str, Any]:
    return next(iter(manifest["target"]["variants"].values()))
