"""Whether a target is exact on this machine: found out once, and kept beside the pair.

Export measures where it runs. Another processor, number of threads or version of the runtime may
take other kernels, so what was measured elsewhere says nothing here (docs/decisions/0003).
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from edgespec.contract import DECODER, Manifest, RowInvariance
from edgespec.json_file import parsed, write_json
from edgespec.runtimes import describe, measure_row_invariance

__all__ = ["VERDICTS", "known_verdict", "measured_verdict", "verdict_here"]

VERDICTS = "verdicts.json"


@dataclass(frozen=True)
class _Kept:
    """A verdict on a decoder graph, named by its digest: an exchanged graph has none."""

    graph: str
    row_invariance: RowInvariance


def verdict_here(
    folder: Path,
    manifest: Manifest,
    variant: str,
    *,
    threads: int | None,
    say: Callable[[str], object],
) -> RowInvariance:
    """The verdict on a target variant, measured now if this machine has none yet.

    Args:
        say: told before the measurement, which takes as long as some hundred calls of the model.
    """
    known = known_verdict(folder, manifest, variant, threads)
    if known is not None:
        return known
    say(f"target {variant}: testing once whether it verifies exactly on this machine …")
    return measured_verdict(folder, manifest, variant, threads)


def known_verdict(
    folder: Path, manifest: Manifest, variant: str, threads: int | None
) -> RowInvariance | None:
    """What export, or an earlier measurement, found on this machine with so many threads."""
    graph = _digest(manifest, variant)
    kept = [item.row_invariance for item in _read(folder) if item.graph == graph]
    exported = manifest.target.variants[variant].row_invariance
    here = describe(threads)
    for verdict in (*reversed(kept), exported):
        if verdict is not None and verdict.measured_on == here:
            return verdict
    return None


def measured_verdict(
    folder: Path, manifest: Manifest, variant: str, threads: int | None
) -> RowInvariance:
    """Measures, and keeps the verdict where the folder can be written."""
    verdict = measure_row_invariance(folder, manifest.target, variant, threads)
    found = _Kept(_digest(manifest, variant), verdict)
    others = [item for item in _read(folder) if not _same_place(item, found)]
    with suppress(OSError):  # it is measured again the next time
        write_json([dataclasses.asdict(item) for item in (*others, found)], folder / VERDICTS)
    return verdict


def _same_place(one: _Kept, other: _Kept) -> bool:
    same_machine = one.row_invariance.measured_on == other.row_invariance.measured_on
    return one.graph == other.graph and same_machine


def _digest(manifest: Manifest, variant: str) -> str:
    graph = manifest.target.variants[variant].graphs[DECODER]
    return str(manifest.files[graph].get("sha256", ""))


def _read(folder: Path) -> list[_Kept]:
    """What is kept; nothing where the file is missing or damaged, for it can be found again."""
    try:
        data = json.loads((folder / VERDICTS).read_text(encoding="utf-8"))
        found: list[_Kept] = parsed(list[_Kept], data, VERDICTS)
    except (OSError, ValueError, RecursionError):
        return []
    return found
