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

__all__ = ["DRAFT", "MODEL", "TARGET", "check_target", "identity", "identity_of"]

TARGET, DRAFT = "target", "draft"
MODEL, RUNTIME, TITLE = "model", "runtime", "title"  # what is said of each
LONGEST = 160  # characters of a title in a message


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
        devices: where the target and the draft run.
        capacity: positions of each cache.

    Returns digests of both models, "target.model" and so on, and titles for people.
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
        said[f"{role}.{MODEL}"] = hashlib.sha256(" ".join(files).encode()).hexdigest()
        said[f"{role}.{RUNTIME}"] = f"{machine.runtime}, {here}"
        said[f"{role}.{TITLE}"] = f"{model.source} {variant}, {machine.runtime}, {machine.kernels}"
    return said


def check_target(path: Path, kept: Mapping[str, str], here: Mapping[str, str]) -> None:
    """Compares the target that a file was kept with, and its programs, with those here.

    Raises:
        EdgespecError: they differ, so numbers may, too.
    """
    title, own = kept.get(f"{TARGET}.{TITLE}", "?"), here[f"{TARGET}.{TITLE}"]
    if kept.get(f"{TARGET}.{MODEL}") != here[f"{TARGET}.{MODEL}"]:
        raise EdgespecError(f"{path} was kept with {_other_model(title, own)}")
    if kept.get(f"{TARGET}.{RUNTIME}") != here[f"{TARGET}.{RUNTIME}"]:
        raise EdgespecError(
            f"{path} was kept with other programs ({_short(title)}), and here is {_short(own)}, "
            "whose numbers may be others; keep it anew"
        )


def _other_model(title: str, own: str) -> str:
    """How another model, format or export differs from the one here, by their titles."""
    (model, number_format), (own_model, own_format) = _parts(title), _parts(own)
    if model != own_model:
        return (
            f"another model ({_short(f'{model} {number_format}')}), and this is "
            f"{_short(f'{own_model} {own_format}')}; keep it anew with this pair"
        )
    if number_format != own_format:
        return (
            f"the target in {_short(number_format)}, and it runs in {own_format}, whose numbers "
            f"are others; run it in {_short(number_format)}, or keep another file"
        )
    return f"another export of {_short(own_model)}, whose numbers may be others; keep it anew"


def _parts(title: str) -> tuple[str, str]:
    """The model's source and its number format."""
    source, _, number_format = title.partition(", ")[0].rpartition(" ")
    return source, number_format


def _short(title: str) -> str:
    """A title of a file, which may be damaged; cut between words."""
    return printable(textwrap.shorten(title, LONGEST, placeholder=" …"))
