"""Execution providers as text for people and as JSON for programs."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence

from edgespec.device.device import CPU, ProviderInfo
from edgespec.device.kernels import installed_kernels

__all__ = ["describe_providers", "providers_json"]


def describe_providers(here: Sequence[ProviderInfo]) -> str:
    """A line for each provider: its name in options, and its full description."""
    kernels = installed_kernels()
    target = f" ({kernels.target})" if kernels else ""
    return "\n".join(
        f"{provider.name:16} {provider}{target if provider.name == CPU else ''}"
        for provider in here
    )


def providers_json(here: Sequence[ProviderInfo]) -> str:
    """The same as one JSON object."""
    return json.dumps({"providers": [dataclasses.asdict(provider) for provider in here]})
