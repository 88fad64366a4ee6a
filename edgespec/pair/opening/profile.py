"""The profile: what `edgespec tune` found on this device; a file in the pair's folder."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path

from edgespec.artifact.manifest import Manifest
from edgespec.artifact.typed_json import read_json, write_json
from edgespec.costs.cost_model import Costs
from edgespec.device.device import CPU, MAX_THREADS, Device
from edgespec.drafters.registry import DRAFTERS, known_costs
from edgespec.errors import EdgespecError, shortened

__all__ = ["PROFILE", "Profile", "read_profile", "write_profile"]

PROFILE = "profile.json"


@dataclass(frozen=True)
class Profile:
    """The fastest setting that was found, and the costs that it was found by.

    Attributes:
        target_format, draft_format: exported variants; the draft's is None without a draft model.
        draft: name of a drafter, or "none" where speculation does not pay.
        gamma: of that drafter, "auto" or a number; with "none" it means nothing.
        threads: for each model.
        verify, draft_cost: see `Costs`; they include the loop's share.
        step_ms: t_target(1), the unit of the costs, in milliseconds.
        measured_on: the machine, for people.
        machine: digest of its record; the profile is used where it is the same.
        provider, draft_provider: of the target and of the draft.
    """

    target_format: str
    draft_format: str | None
    draft: str
    gamma: int | str
    threads: int
    verify: list[float]
    draft_cost: float
    step_ms: float
    measured_on: str
    machine: str
    provider: str
    draft_provider: str

    @property
    def device(self) -> Device:
        return Device(self.threads, self.provider)

    @property
    def draft_device(self) -> Device | None:
        """None where no draft model is part of it."""
        return Device(self.threads, self.draft_provider) if self.draft_format else None

    def provider_of(self, target_format: str) -> str:
        """The provider for a target variant: the tuned one's, or else the processor."""
        return self.provider if target_format == self.target_format else CPU

    def of(
        self,
        target_format: str,
        draft_format: str | None,
        device: Device,
        draft_device: Device,
    ) -> Profile | None:
        """The profile, if it was measured with these; it says nothing about others."""
        draft = (self.draft_format, self.draft_device)
        same_draft = self.draft_format is None or draft == (draft_format, draft_device)
        same = same_draft and (self.target_format, self.device) == (target_format, device)
        return self if same else None

    def known_costs(self) -> dict[str, Costs]:
        """Costs of rounds by the name of the drafter, of those that were timed."""
        return known_costs(self.draft, Costs(self.verify, self.draft_cost))


def write_profile(profile: Profile, folder: Path) -> None:
    """Writes it whole or not at all."""
    try:
        write_json(dataclasses.asdict(profile), folder / PROFILE)
    except OSError as error:
        raise EdgespecError(f"{folder / PROFILE} cannot be written: {error.strerror}") from None


def read_profile(folder: Path, manifest: Manifest) -> Profile | None:
    """The profile of a pair; None if it was never tuned.

    Raises:
        EdgespecError: the file is damaged, or of another export.
    """
    path = folder / PROFILE
    if not path.is_file():
        return None
    try:
        profile = read_json(Profile, path)
        _check_values(profile)
    except OSError as error:
        raise EdgespecError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise EdgespecError(f"{path} is damaged ({error}); tune the pair again") from None
    _check_variants(profile, manifest, path)
    return profile


def _check_values(profile: Profile) -> None:
    """Raises ValueError where a value is out of range."""
    if not (profile.verify and all(0 < value < math.inf for value in profile.verify)):
        raise ValueError("verify must be positive numbers")
    if profile.draft != "none" and profile.draft not in DRAFTERS:
        raise ValueError(f"draft is {shortened(profile.draft)}")
    if profile.gamma != "auto" and profile.gamma not in range(len(profile.verify)):
        raise ValueError(f"gamma is {shortened(profile.gamma)}")
    if not 1 <= profile.threads <= MAX_THREADS:
        raise ValueError(f"threads is {shortened(profile.threads)}")
    if not 0 <= profile.draft_cost < math.inf:
        raise ValueError(f"draft_cost is {profile.draft_cost}")


def _check_variants(profile: Profile, manifest: Manifest, path: Path) -> None:
    existing = {"target": manifest.target.variants, "draft": {}}
    if manifest.draft is not None:
        existing["draft"] = manifest.draft.variants
    for role, name in (("target", profile.target_format), ("draft", profile.draft_format)):
        if name is not None and name not in existing[role]:
            raise EdgespecError(
                f"{path} names the {role} {shortened(name)}, which the pair does not have; tune "
                "the pair again"
            )
