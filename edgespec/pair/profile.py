"""What `edgespec tune` found out on this device, kept beside the pair and used from then on."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from pathlib import Path

from edgespec.artifact.manifest import Manifest
from edgespec.artifact.typed_json import ADDED_LATER, read_json, write_json
from edgespec.core.cost_model import Costs
from edgespec.core.device import CPU, Device
from edgespec.drafters.registry import KINDS
from edgespec.errors import EdgespecError

__all__ = ["PROFILE", "Profile", "read_profile", "write_profile"]

PROFILE = "profile.json"


@dataclass(frozen=True)
class Profile:
    """The fastest setting found, and the costs behind it.

    Attributes:
        target_format, draft_format: exported variants; the draft's is None without a draft model.
        draft: "both", "model", "lookup", or "none" where speculation does not pay.
        gamma: of that draft, "auto" or a number; with "none" it means nothing.
        threads: for each model.
        verify, draft_cost: see `Costs`; what the loop takes is in them.
        step_ms: t_target(1), the unit of the costs, in milliseconds.
        measured_on: runtime and machine of both devices, by `edgespec.pair.runtime.describe`.
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
    provider: str = field(default=CPU, metadata=ADDED_LATER)
    draft_provider: str = field(default=CPU, metadata=ADDED_LATER)

    @property
    def device(self) -> Device:
        return Device(self.threads, self.provider)

    @property
    def draft_device(self) -> Device | None:
        """None where no draft model is part of it."""
        return Device(self.threads, self.draft_provider) if self.draft_format else None

    def provider_of(self, target_format: str) -> str:
        """What to run a target on; the processor, if it is not the one that was tuned."""
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
        """Of rounds with each kind of draft that was timed."""
        costs = Costs(self.verify, self.draft_cost).of_kinds()
        timed = {"both": costs, "model": costs, "lookup": {"lookup": costs["lookup"]}}
        return timed.get(self.draft, {})


def write_profile(profile: Profile, folder: Path) -> None:
    """Writes it whole or not at all."""
    try:
        write_json(dataclasses.asdict(profile), folder / PROFILE)
    except OSError as error:
        raise EdgespecError(f"{folder / PROFILE} cannot be written: {error.strerror}") from None


def read_profile(folder: Path, manifest: Manifest) -> Profile | None:
    """The profile of a pair, None if it was never tuned.

    Raises:
        EdgespecError: the file is damaged, or another export's.
    """
    path = folder / PROFILE
    if not path.is_file():
        return None
    try:
        profile: Profile = read_json(Profile, path)
        if not (profile.verify and all(0 < value < math.inf for value in profile.verify)):
            raise ValueError("verify must be positive numbers")
        if profile.draft not in (*KINDS, "none"):
            raise ValueError(f"draft is {profile.draft!r}")
        if profile.gamma != "auto" and profile.gamma not in range(len(profile.verify)):
            raise ValueError(f"gamma is {profile.gamma!r}")
        if profile.threads < 1 or not 0 <= profile.draft_cost < math.inf:
            raise ValueError(f"threads is {profile.threads}, draft_cost {profile.draft_cost}")
    except OSError as error:
        raise EdgespecError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise EdgespecError(
            f"{path} is damaged ({error}); delete it, and tune the pair again"
        ) from None
    _check_variants(profile, manifest, path)
    return profile


def _check_variants(profile: Profile, manifest: Manifest, path: Path) -> None:
    there = {"target": manifest.target.variants, "draft": {}}
    if manifest.draft is not None:
        there["draft"] = manifest.draft.variants
    for role, name in (("target", profile.target_format), ("draft", profile.draft_format)):
        if name is not None and name not in there[role]:
            raise EdgespecError(
                f"{path} names the {role} {name!r}, which the pair does not have; delete it, "
                "and tune the pair again"
            )
