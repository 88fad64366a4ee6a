"""Whether a folder without a mark of this machine is exact here: its export measured that, or loads
did before the folder was moved, before EDGESPEC_HOME was set, or before other software came."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from edgespec.artifact.kept.used_mark import mark_used
from edgespec.errors import EdgespecError

if TYPE_CHECKING:
    from edgespec.artifact.row_invariance import RowInvariance

__all__ = ["tested_before"]


def tested_before(folder: Path, last_used: float) -> bool | None:
    """What measurements that are in the folder say of its default target on this machine; None if
    none was made here. The folder is marked with it, if it is among those that are kept: asking
    loads the runtime, which takes a second.

    Args:
        folder: with a manifest, perhaps a damaged one, or one of another version.
        last_used: seconds since 1970, which the mark keeps.
    """
    found = None
    with suppress(EdgespecError):
        found = _measured_here(folder)
    exact = found.is_row_invariant if found else None
    mark_used(folder, exact, last_used)
    return exact


def _measured_here(folder: Path) -> RowInvariance | None:
    """With the usual number of threads, one, or one for each core."""
    from edgespec.artifact.manifest import read_manifest

    manifest = read_manifest(folder)
    variant = next(iter(manifest.target.variants))
    from edgespec.device.device import HERE, Device
    from edgespec.pair.opening.invariance_cache import known_invariance

    for device in (HERE, Device(1), Device(os.cpu_count())):
        if found := known_invariance(folder, manifest, variant, device):
            return found
    return None
