"""Which variants of a pair are loaded, and where they run: as asked, as tuned, or as usual."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edgespec.artifact.manifest import Exported, Manifest
from edgespec.core.device import CPU, Device
from edgespec.errors import UsageError
from edgespec.pair.profile import PROFILE, Profile, read_profile
from edgespec.pair.runtime import describe, provider_name

__all__ = ["LoadRequest", "ResolvedSetup", "profile_of_this_machine", "resolve_setup"]


@dataclass(frozen=True)
class LoadRequest:
    """What a caller wants of a pair; None where they leave it to the profile, or to what is usual.

    Attributes: see `edgespec.load`.
    """

    threads: int | None = None
    target_format: str | None = None
    draft_format: str | None = None
    provider: str | None = None
    draft_provider: str | None = None


@dataclass(frozen=True)
class ResolvedSetup:
    """Attributes:
    target_format, draft_format: variants; None without a draft model.
    device, draft_device: where they run.
    tuned: the profile, if it was measured with just these.
    """

    target_format: str
    draft_format: str | None
    device: Device
    draft_device: Device
    tuned: Profile | None


def resolve_setup(manifest: Manifest, profile: Profile | None, asked: LoadRequest) -> ResolvedSetup:
    """Raises UsageError where a variant or a provider is not there."""
    target_format, draft_format, threads = asked.target_format, asked.draft_format, asked.threads
    if profile is not None:
        threads = profile.threads if threads is None else threads
        target_format = target_format or profile.target_format
        draft_format = draft_format or profile.draft_format
    target_format = _variant(manifest.target, target_format, "target")
    draft_format = _variant(manifest.draft, draft_format, "draft") if manifest.draft else None
    usual = CPU if profile is None else profile.provider_of(target_format)
    provider = usual if asked.provider is None else provider_name(asked.provider)
    draft_provider = _draft_provider(asked, profile, provider, (target_format, draft_format))
    device, draft_device = Device(threads, provider), Device(threads, draft_provider)
    tuned = profile and profile.of(target_format, draft_format, device, draft_device)
    return ResolvedSetup(target_format, draft_format, device, draft_device, tuned)


def _draft_provider(
    asked: LoadRequest, profile: Profile | None, provider: str, formats: tuple[str, str | None]
) -> str:
    if asked.draft_provider is not None:
        return provider_name(asked.draft_provider)
    if profile is not None:
        tuned = (profile.target_format, profile.draft_format)
        if (tuned, profile.provider) == (formats, provider):
            return profile.draft_provider
    return CPU if asked.provider is None else provider  # the processor runs whatever it is given


def profile_of_this_machine(
    folder: Path, manifest: Manifest, say: Callable[[str], object]
) -> Profile | None:
    """The pair's profile, its providers by their own names, if it was measured here.

    Args:
        say: told where there is one that is not used.
    """
    profile = read_profile(folder, manifest)
    if profile is None:
        return None
    try:
        named = dataclasses.replace(
            profile,
            provider=provider_name(profile.provider),
            draft_provider=provider_name(profile.draft_provider),
        )
        if profile.measured_on == describe(named.device, named.draft_device):
            return named
    except UsageError:  # such a provider is not here
        pass
    say(
        f"{folder / PROFILE} was measured on another machine, or with other software, and is not "
        "used: tune the pair"
    )
    return None


def _variant(exported: Exported, format_: str | None, role: str) -> str:
    """The variant asked for, or the first."""
    name = format_ or next(iter(exported.variants))
    if name not in exported.variants:
        there = ", ".join(exported.variants)
        raise UsageError(f"the {role} was not exported as {name!r}; there is: {there}")
    return name
