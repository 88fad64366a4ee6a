"""Whether a target is exact on this machine: found out once, and kept beside the pair.

Export measures where it runs. Another processor, number of threads, provider or version of the
runtime may take other kernels, so what was measured elsewhere says nothing here
(docs/decisions/0003).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from edgespec.artifact.graph_io import DECODER
from edgespec.artifact.manifest import Manifest, RowInvariance
from edgespec.artifact.typed_json import read_json, write_json
from edgespec.core.device import Device, variant_title
from edgespec.pair.runtime import describe, measure_row_invariance

__all__ = ["INVARIANCE_FILE", "invariance_here", "known_invariance", "measured_invariance"]

INVARIANCE_FILE = "verdicts.json"


@dataclass(frozen=True)
class _Kept:
    """A verdict on a decoder graph, named by its digest: an exchanged graph has none."""

    graph: str
    row_invariance: RowInvariance


def invariance_here(
    folder: Path,
    manifest: Manifest,
    variant: str,
    device: Device,
    say: Callable[[str], object],
) -> RowInvariance:
    """The verdict on a target variant, measured now if this machine has none yet.

    Args:
        say: told before a measurement, which takes long.
    """
    known = known_invariance(folder, manifest, variant, device)
    if known is not None:
        return known
    target = variant_title(variant, device.provider)
    say(f"target {target}: testing whether it verifies exactly on this machine …")
    return measured_invariance(folder, manifest, variant, device)


def known_invariance(
    folder: Path, manifest: Manifest, variant: str, device: Device
) -> RowInvariance | None:
    """What export, or an earlier measurement, found on this machine with this device."""
    here = describe(device)
    exported = manifest.target.variants[variant].row_invariance
    kept = _read(folder).get((_digest(manifest, variant), here))
    return kept or (exported if exported and exported.measured_on == here else None)


def measured_invariance(
    folder: Path, manifest: Manifest, variant: str, device: Device
) -> RowInvariance:
    """Measures, and keeps the verdict where the folder can be written.

    That takes as long as some hundred calls of the model.
    """
    is_row_invariant = measure_row_invariance(folder, manifest.target, variant, device)
    kept = _read(folder) | {
        (_digest(manifest, variant), is_row_invariant.measured_on): is_row_invariant
    }
    found = [_Kept(graph, is_row_invariant) for (graph, _), is_row_invariant in kept.items()]
    with suppress(OSError):  # it is measured again the next time
        write_json([dataclasses.asdict(item) for item in found], folder / INVARIANCE_FILE)
    return is_row_invariant


def _digest(manifest: Manifest, variant: str) -> str:
    graph = manifest.target.variants[variant].graphs[DECODER]
    return str(manifest.files[graph].get("sha256", ""))


def _read(folder: Path) -> dict[tuple[str, str], RowInvariance]:
    """What is kept, by graph and machine; nothing where the file is missing or damaged, for it can
    be found again."""
    try:
        found: list[_Kept] = read_json(list[_Kept], folder / INVARIANCE_FILE)
    except (OSError, ValueError):
        return {}
    return {(item.graph, item.row_invariance.measured_on): item.row_invariance for item in found}
