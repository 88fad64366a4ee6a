"""What `edgespec tune` found out on this device, kept beside the pair and used from then on."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

from edgespec.costs import Costs
from edgespec.draft import KINDS
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
        measured_on: runtime and machine.
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

    @property
    def costs(self) -> Costs:
        """Of rounds with a draft model."""
        return Costs(self.verify, self.draft_cost)


def write_profile(profile: Profile, folder: Path) -> None:
    """Writes it whole or not at all."""
    aside = folder / f".{PROFILE}.partial"
    try:
        aside.write_text(json.dumps(dataclasses.asdict(profile), indent=2) + "\n")
        aside.replace(folder / PROFILE)
    except OSError as error:
        raise EdgespecError(f"{folder / PROFILE} cannot be written: {error.strerror}") from None


def read_profile(folder: Path) -> Profile | None:
    """The profile of a pair, None if it was never tuned.

    Raises:
        EdgespecError: the file is damaged.
    """
    path = folder / PROFILE
    if not path.is_file():
        return None
    try:
        profile = Profile(**json.loads(path.read_text(encoding="utf-8")))
        if not all(isinstance(value, (int, float)) and value > 0 for value in profile.verify):
            raise ValueError("verify must be positive numbers")
        if profile.draft not in (*KINDS, "none"):
            raise ValueError(f"draft is {profile.draft!r}")
        if profile.gamma != "auto" and profile.gamma not in range(len(profile.verify)):
            raise ValueError(f"gamma is {profile.gamma!r}")
        return profile
    except (ValueError, TypeError) as error:
        raise EdgespecError(
            f"{path} is damaged ({error}); delete it or tune the pair again"
        ) from None
