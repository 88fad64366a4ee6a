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
from typing import Literal

from edgespec.artifact.graph_io import DECODER
from edgespec.artifact.hosts import GPU
from edgespec.artifact.manifest import Manifest
from edgespec.artifact.row_invariance import RowInvariance
from edgespec.artifact.typed_json import read_json, write_json
from edgespec.device.device import Device, variant_title
from edgespec.device.kernels import kernels_for
from edgespec.pair.opening.provider_check import refuse_if_far
from edgespec.pair.opening.runtime import machine_of, measure_row_invariance

__all__ = [
    "INVARIANCE_FILE",
    "MeasuringEndedError",
    "invariance_here",
    "known_invariance",
    "measured_invariance",
]

INVARIANCE_FILE = "row_invariance.json"

logger = logging.getLogger("edgespec")


class MeasuringEndedError(KeyboardInterrupt):
    """Ctrl-C ended the test of a target: whether it is exact here is as unknown as before."""


@dataclass(frozen=True)
class _Entry:
    """A result for the decoder graph `graph` (`_measured_graph`); another has no result yet."""

    graph: str
    row_invariance: RowInvariance


def invariance_here(
    folder: Path, manifest: Manifest, variant: str, device: Device, capacity: int | None = None
) -> RowInvariance:
    """The result for a target variant; measured now if this machine has none yet, which takes
    seconds and is logged.

    Args:
        capacity: of the cache that it will have; None is the manifest's.

    Raises:
        EdgespecError: the provider computes another model than the processor.
        MeasuringEndedError: Ctrl-C was pressed meanwhile.
    """
    known = known_invariance(folder, manifest, variant, device, capacity)
    known = known or _confirmed_invariance(folder, manifest, variant, device)
    if known is not None:
        return known
    target = variant_title(variant, device.provider)
    logger.info("target %s: testing whether it verifies exactly on this machine …", target)
    try:
        return measured_invariance(folder, manifest, variant, device, capacity)
    except KeyboardInterrupt:
        raise MeasuringEndedError from None


def known_invariance(
    folder: Path, manifest: Manifest, variant: str, device: Device, capacity: int | None = None
) -> RowInvariance | None:
    """What export, or an earlier measurement, found on this machine with this device."""
    here = machine_of(device).digest
    exported = manifest.target.variants[variant].row_invariance
    measured = _read(folder).get((_measured_graph(manifest, variant, capacity), here))
    return measured or (exported if exported and exported.machine == here else None)


def measured_invariance(
    folder: Path,
    manifest: Manifest,
    variant: str,
    device: Device,
    capacity: int | None = None,
    *,
    long: bool = False,
) -> RowInvariance:
    """Measures, and writes the result into the folder where that is possible.

    Args:
        capacity: see `invariance_here`.
        long: make every call that can be compared.

    Raises:
        EdgespecError: the provider computes another model than the processor.
    """
    refuse_if_far(folder, manifest, variant, device)
    short: Literal["short", "rows"] = "rows" if manifest.host == GPU else "short"
    calls: Literal["short", "rows", "long"] = "long" if long else short
    how = {"capacity": _capacity(manifest, capacity)} if manifest.host == GPU else {}
    invariance = measure_row_invariance(
        folder, manifest.target, variant, device, calls=calls, **how
    )
    _write(folder, _measured_graph(manifest, variant, capacity), invariance)
    return invariance


def _confirmed_invariance(
    folder: Path, manifest: Manifest, variant: str, device: Device
) -> RowInvariance | None:
    """What was found on another machine, or here with other threads, if kernels run the whole model
    in both: their bits are the same, which a few calls confirm by the logits' digest. None if it
    has to be measured."""
    kernels = kernels_for(device)
    if kernels is None or not manifest.target.variants[variant].run_by_kernels:
        return None
    graph = _measured_graph(manifest, variant, None)
    measured = [result for (of, _), result in _read(folder).items() if of == graph]
    exported = manifest.target.variants[variant].row_invariance
    results = (exported, *measured) if exported else measured
    elsewhere = next((each for each in results if each.kernels == kernels.name), None)
    if elsewhere is None:
        return None
    here = measure_row_invariance(folder, manifest.target, variant, device, calls="check")
    same = here.logits == elsewhere.logits and here.candidates == elsewhere.candidates
    if not (same and here.is_row_invariant and elsewhere.min_rows == 1):
        return None
    confirmed = dataclasses.replace(elsewhere, measured_on=here.measured_on, machine=here.machine)
    _write(folder, graph, confirmed)
    return confirmed


def _write(folder: Path, graph: str, invariance: RowInvariance) -> None:
    results = _read(folder) | {(graph, invariance.machine): invariance}
    entries = [_Entry(graph, result) for (graph, _), result in results.items()]
    with suppress(OSError):  # it is measured again the next time
        write_json([dataclasses.asdict(entry) for entry in entries], folder / INVARIANCE_FILE)


def _measured_graph(manifest: Manifest, variant: str, capacity: int | None) -> str:
    """The digest of a variant's decoder graph; with the capacity where attention reads the whole
    cache, so that its kernels may depend on that."""
    digest = manifest.files[manifest.target.variants[variant].graphs[DECODER]].sha256
    return f"{digest} {_capacity(manifest, capacity)}" if manifest.host == GPU else digest


def _capacity(manifest: Manifest, capacity: int | None) -> int:
    return manifest.target.capacity if capacity is None else capacity


def _read(folder: Path) -> dict[tuple[str, str], RowInvariance]:
    """The results in the pair's folder, by graph and machine. A missing or damaged file counts as
    empty: it can be measured again. So does a pipe, which would keep its reader waiting."""
    path = folder / INVARIANCE_FILE
    try:
        entries = read_json(list[_Entry], path) if path.is_file() else []
    except (OSError, ValueError):
        return {}
    return {(entry.graph, entry.row_invariance.machine): entry.row_invariance for entry in entries}
