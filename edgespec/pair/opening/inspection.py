"""Row invariance of all of a pair's target variants on this machine, for `edgespec inspect`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from edgespec.artifact.manifest import Manifest
from edgespec.artifact.row_invariance import RowInvariance
from edgespec.device.device import Device, variant_title
from edgespec.pair.opening.invariance_cache import known_invariance, measured_invariance
from edgespec.pair.opening.profile import Profile
from edgespec.pair.opening.provider_check import left_out_if_it_cannot
from edgespec.pair.opening.setup import LoadRequest, resolve_setup

__all__ = ["known_invariances", "measured_invariances"]


def known_invariances(
    folder: Path, manifest: Manifest, profile: Profile | None, request: LoadRequest
) -> dict[str, RowInvariance]:
    """Results of earlier measurements on this machine, by variant."""
    devices = _devices(manifest, profile, request)
    found = {name: known_invariance(folder, manifest, name, devices[name]) for name in devices}
    return {name: invariance for name, invariance in found.items() if invariance is not None}


def measured_invariances(
    folder: Path,
    manifest: Manifest,
    profile: Profile | None,
    request: LoadRequest,
    *,
    long: bool,
) -> dict[str, RowInvariance]:
    """Results for all variants, measured again and written into the folder.

    Where the provider is not the processor, it is logged which variants do not run on it, and how
    far the logits of the others are from the processor's.

    Args:
        long: see `edgespec.pair.opening.runtime.measure_row_invariance`.
    """
    found = {}
    for name, device in _devices(manifest, profile, request).items():
        with left_out_if_it_cannot(
            f"target {variant_title(name, device.provider)}", device.provider
        ):
            found[name] = measured_invariance(folder, manifest, name, device, long=long)
    return found


def _devices(
    manifest: Manifest, profile: Profile | None, request: LoadRequest
) -> dict[str, Device]:
    """Where each variant would run."""
    return {
        name: resolve_setup(manifest, profile, replace(request, target_format=name)).device
        for name in manifest.target.variants
    }
