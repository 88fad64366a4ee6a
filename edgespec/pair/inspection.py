"""What this machine says of a pair's targets: whether each is exact where it would run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from edgespec.artifact.manifest import Manifest, RowInvariance
from edgespec.core.device import Device, variant_title
from edgespec.pair.invariance_cache import known_invariance, measured_invariance
from edgespec.pair.profile import Profile
from edgespec.pair.provider_check import left_out_if_it_cannot, say_how_far
from edgespec.pair.setup import LoadRequest, resolve_setup

__all__ = ["known_invariances", "measured_invariances"]


def known_invariances(
    folder: Path, manifest: Manifest, profile: Profile | None, asked: LoadRequest
) -> dict[str, RowInvariance]:
    """Those that were found before, by variant."""
    devices = _devices(manifest, profile, asked)
    known = {name: known_invariance(folder, manifest, name, devices[name]) for name in devices}
    return {
        name: is_row_invariant
        for name, is_row_invariant in known.items()
        if is_row_invariant is not None
    }


def measured_invariances(
    folder: Path,
    manifest: Manifest,
    profile: Profile | None,
    asked: LoadRequest,
    say: Callable[[str], object],
) -> dict[str, RowInvariance]:
    """All, found anew and kept, by variant.

    Args:
        say: told what does not run on another provider, and else how far it is from the processor.
    """
    found = {}
    for name, device in _devices(manifest, profile, asked).items():
        what = f"target {variant_title(name, device.provider)}"
        with left_out_if_it_cannot(what, device.provider, say):
            found[name] = measured_invariance(folder, manifest, name, device)
            say_how_far(folder, manifest, name, device, say)
    return found


def _devices(manifest: Manifest, profile: Profile | None, asked: LoadRequest) -> dict[str, Device]:
    """Where each variant would run."""
    return {
        name: resolve_setup(manifest, profile, replace(asked, target_format=name)).device
        for name in manifest.target.variants
    }
