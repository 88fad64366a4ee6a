"""What the bits of a pair's caches depend on: the graphs, the weights, and the programs."""

from __future__ import annotations

import hashlib
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from edgespec.artifact.hosts import GPU
from edgespec.artifact.manifest import Manifest
from edgespec.device.device import Device
from edgespec.errors import EdgespecError, printable
from edgespec.pair.opening.runtime import machine_of

if TYPE_CHECKING:
    from edgespec.pair.parts import PairParts

__all__ = ["DRAFT", "TARGET", "check_target", "identity", "identity_of"]

TARGET = "target"
DRAFT = "draft"


def identity_of(parts: PairParts) -> dict[str, str]:
    """Of a pair that is open."""
    return identity(parts.manifest, parts.formats, parts.devices, parts.target.capacity)


def identity(
    manifest: Manifest,
    formats: Sequence[str | None],
    devices: Sequence[Device],
    capacity: int,
) -> dict[str, str]:
    """Of a pair that these would open.

    Args:
        formats: variants of the target and of the draft; None without a draft.
        devices: where both run.
        capacity: positions of each cache.
    """
    models = {TARGET: manifest.target, DRAFT: manifest.draft}
    said: dict[str, str] = {}
    for (role, model), variant, device in zip(models.items(), formats, devices, strict=True):
        if model is None or variant is None:
            continue
        of = model.variants[variant]
        files = [manifest.files[name].sha256 for _, name in sorted(of.graphs.items())]
        files += [each.sha256 for _, each in sorted(manifest.weights(role, variant).items())]
        if manifest.host == GPU:  # its kernels depend on it
            files.append(str(capacity))
        machine = machine_of(device)
        here = machine.kernels if of.run_by_kernels and machine.kernels else machine.digest
        said[f"{role}.model"] = hashlib.sha256(" ".join(files).encode()).hexdigest()
        said[f"{role}.runtime"] = f"{machine.runtime}, {here}"
        said[f"{role}.title"] = f"{model.source} {variant}, {machine.runtime}, {machine.kernels}"
    return said


def check_target(path: Path, kept: Mapping[str, str], here: Mapping[str, str]) -> None:
    """Raises EdgespecError where a file was kept with another target, or other programs."""
    title, own = kept.get("target.title", "?"), here["target.title"]
    if kept.get("target.model") != here["target.model"]:
        title, own = title.partition(", ")[0], own.partition(", ")[0]
        what = "model or number format" if title != own else "export"
    elif kept.get("target.runtime") != here["target.runtime"]:
        what = "runtime or kernels"
    else:
        return
    cut = printable(textwrap.shorten(title, 160, placeholder=" …"))  # between words
    raise EdgespecError(
        f"{path} was kept with another {what} ({cut}), and this is {own}; keep it anew with this "
        "pair"
    )
