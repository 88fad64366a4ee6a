"""Profiles, as tests write them."""

from __future__ import annotations

from typing import Any

from edgespec.device.device import CPU, Device
from edgespec.pair.opening.profile import Profile
from edgespec.pair.opening.runtime import machine_of


def profile(**changes: Any) -> Profile:
    """What tuning might have found on this machine's processor."""
    usual = {
        "target_format": "fp32",
        "draft_format": "fp32",
        "draft": "model",
        "gamma": 3,
        "threads": 1,
        "verify": [1.0, 1.1, 1.2, 1.3],
        "draft_cost": 0.1,
        "step_ms": 1.0,
        "measured_on": str(machine_of(Device(1))),
        "machine": machine_of(Device(1)).digest,
        "provider": CPU,
        "draft_provider": CPU,
    }
    return Profile(**{**usual, **changes})
