"""Which variants of a pair are loaded and where they run: requested, tuned or default."""

from __future__ import annotations

import dataclasses
import logging
from dataclasses import dataclass
from pathlib import Path

from edgespec.artifact.manifest import Exported, Manifest
from edgespec.device.device import CPU, Device
from edgespec.errors import EdgespecError, UsageError, shortened
from edgespec.pair.opening.profile import PROFILE, Profile, read_profile
from edgespec.pair.opening.runtime import machine_of, provider_name

__all__ = ["LoadRequest", "ResolvedSetup", "profile_of_this_machine", "resolve_setup"]

logger = logging.getLogger("edgespec")


@dataclass(frozen=True)
class LoadRequest:
    """What a caller of `edgespec.load` asks for; None takes the profile's or the default."""

    threads: int | None = None
    target_format: str | None = None
    draft_format: str | None = None
    provider: str | None = None
    draft_provider: str | None = None


@dataclass(frozen=True)
class ResolvedSetup:
    """What is loaded.

    Attributes:
        target_format, draft_format: names of variants; None without a draft model.
        device, draft_device: where they run.
        tuned: the profile, if it was measured with exactly these.
    """

    target_format: str
    draft_format: str | None
    device: Device
    draft_device: Device
    tuned: Profile | None


def resolve_setup(
    manifest: Manifest, profile: Profile | None, request: LoadRequest
) -> ResolvedSetup:
    """Raises UsageError where a variant or a provider does not exist."""
    target_format, draft_format = request.target_format, request.draft_format
    threads = request.threads
    if profile is not None:
        threads = profile.threads if threads is None else threads
        target_format = target_format or profile.target_format
        draft_format = draft_format or profile.draft_format
    target_format = _variant(manifest.target, target_format, "target")
    draft_format = _variant(manifest.draft, draft_format, "draft") if manifest.draft else None
    default = CPU if profile is None else profile.provider_of(target_format)
    provider = default if request.provider is None else provider_name(request.provider)
    draft_provider = _draft_provider(request, profile, provider, (target_format, draft_format))
    device, draft_device = Device(threads, provider), Device(threads, draft_provider)
    tuned = profile and profile.of(target_format, draft_format, device, draft_device)
    return ResolvedSetup(target_format, draft_format, device, draft_device, tuned)


def _draft_provider(
    request: LoadRequest, profile: Profile | None, provider: str, formats: tuple[str, str | None]
) -> str:
    if request.draft_provider is not None:
        return provider_name(request.draft_provider)
    if profile is not None:
        tuned = (profile.target_format, profile.draft_format)
        if (tuned, profile.provider) == (formats, provider):
            return profile.draft_provider
    return CPU if request.provider is None else provider  # the processor runs every graph


def profile_of_this_machine(folder: Path, manifest: Manifest) -> Profile | None:
    """The pair's profile, with edgespec's names of providers, if it was measured on this machine.

    One that is damaged, or of another machine or export, is not used, and a warning says so: a
    profile changes the speed, never the text.
    """
    try:
        profile = read_profile(folder, manifest)
    except EdgespecError as error:
        logger.warning("%s; it is not used", error)
        return None
    if profile is None:
        return None
    try:
        named = dataclasses.replace(
            profile,
            provider=provider_name(profile.provider),
            draft_provider=provider_name(profile.draft_provider),
        )
        if profile.machine == machine_of(named.device, named.draft_device).digest:
            return named
    except UsageError:  # such a provider is not here
        pass
    logger.warning(
        "%s was measured on another machine, or with other software, and is not used: tune the "
        "pair",
        folder / PROFILE,
    )
    return None


def _variant(exported: Exported, name: str | None, role: str) -> str:
    """The variant asked for, or the first."""
    name = name or next(iter(exported.variants))
    if name not in exported.variants:
        existing = ", ".join(exported.variants)
        raise UsageError(f"the {role} was not exported as {shortened(name)}; there is: {existing}")
    return name
