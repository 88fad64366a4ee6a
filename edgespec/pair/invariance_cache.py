"""Whether a target is row-invariant on this machine: measured once, then read from the folder.

Export measures on the exporting machine. Another processor, number of threads, provider or version
of the runtime may take other kernels, so a result holds only where the digest of the machine's
record is the same (docs/decisions/0003).
"""

from __future__ import annotations

import dataclasses
import logging
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from edgespec.artifact.graph_io import DECODER
from edgespec.artifact.manifest import Manifest, RowInvariance
from edgespec.artifact.typed_json import read_json, write_json
from edgespec.core.device import Device, variant_title
from edgespec.pair.runtime import machine_of, measure_row_invariance

__all__ = ["INVARIANCE_FILE", "invariance_here", "known_invariance", "measured_invariance"]

INVARIANCE_FILE = "row_invariance.json"

logger = logging.getLogger("edgespec")


@dataclass(frozen=True)
class _Entry:
    """A result for the decoder graph with the digest `graph`; another graph has no result yet."""

    graph: str
    row_invariance: RowInvariance


def invariance_here(
    folder: Path, manifest: Manifest, variant: str, device: Device
) -> RowInvariance:
    """The result for a target variant; measured now if this machine has none yet, which takes
    seconds and is logged."""
    known = known_invariance(folder, manifest, variant, device)
    if known is not None:
        return known
    target = variant_title(variant, device.provider)
    logger.info("target %s: testing whether it verifies exactly on this machine …", target)
    return measured_invariance(folder, manifest, variant, device)


def known_invariance(
    folder: Path, manifest: Manifest, variant: str, device: Device
) -> RowInvariance | None:
    """What export, or an earlier measurement, found on this machine with this device."""
    here = machine_of(device).digest
    exported = manifest.target.variants[variant].row_invariance
    measured = _read(folder).get((_graph_digest(manifest, variant), here))
    return measured or (exported if exported and exported.machine == here else None)


def measured_invariance(
    folder: Path, manifest: Manifest, variant: str, device: Device, *, long: bool = False
) -> RowInvariance:
    """Measures, and writes the result into the folder where that is possible.

    Args:
        long: see `edgespec.pair.runtime.measure_row_invariance`.
    """
    invariance = measure_row_invariance(folder, manifest.target, variant, device, long=long)
    graph = _graph_digest(manifest, variant)
    results = _read(folder) | {(graph, invariance.machine): invariance}
    entries = [_Entry(graph, result) for (graph, _), result in results.items()]
    with suppress(OSError):  # it is measured again the next time
        write_json([dataclasses.asdict(entry) for entry in entries], folder / INVARIANCE_FILE)
    return invariance


def _graph_digest(manifest: Manifest, variant: str) -> str:
    graph = manifest.target.variants[variant].graphs[DECODER]
    return manifest.files[graph].sha256


def _read(folder: Path) -> dict[tuple[str, str], RowInvariance]:
    """The results in the pair's folder, by graph and machine. A missing or damaged file counts as
    empty: it can be measured again."""
    try:
        entries = read_json(list[_Entry], folder / INVARIANCE_FILE)
    except (OSError, ValueError):
        return {}
    return {(entry.graph, entry.row_invariance.machine): entry.row_invariance for entry in entries}
