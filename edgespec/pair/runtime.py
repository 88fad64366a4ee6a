"""Short names for what runs models; each is imported when it is first needed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgespec.artifact.graph_io import FEATURE_FUSION
from edgespec.artifact.manifest import Exported, RowInvariance
from edgespec.core.device import HERE, Device, ProviderInfo
from edgespec.core.model import Model
from edgespec.errors import EdgespecError

if TYPE_CHECKING:
    from edgespec_runtimes.ort.ort_model import OrtModel

__all__ = ["all_providers", "describe", "measure_row_invariance", "open_model", "provider_name"]


def open_model(
    folder: Path,
    exported: Exported,
    variant: str,
    *,
    capacity: int | None = None,
    device: Device = HERE,
    min_rows: int = 1,
    max_rows: int | None = None,
    candidates: bool = False,
    target: Model | None = None,
) -> OrtModel:
    """A model on ONNX Runtime; arguments as of `edgespec_runtimes.ort.ort_model.OrtModel`.

    Args:
        target: of a draft; one that reads its target's hidden states needs it.
    """
    from edgespec_runtimes.ort.ort_model import OrtModel

    options: dict[str, Any] = {"capacity": capacity, "device": device, "min_rows": min_rows}
    if FEATURE_FUSION not in exported.variants[variant].graphs:
        options |= {"max_rows": max_rows, "candidates": candidates}
        return OrtModel(folder, exported, variant, **options)
    from edgespec_runtimes.ort.ort_eagle import OrtEagle

    if not isinstance(target, OrtModel):
        raise EdgespecError(f"{exported.source} reads its target's hidden states; open it with one")
    return OrtEagle(folder, exported, variant, target, **options)


def describe(device: Device, draft_device: Device | None = None) -> str:
    """What a measurement was made on: runtime, provider, threads, processor.

    Args:
        draft_device: of a measurement that a draft model was part of.

    Raises:
        UsageError: there is no such provider here.
    """
    from edgespec_runtimes import machine

    if draft_device in (None, device):
        return machine.describe(device)
    return f"{machine.describe(device)}; draft: {machine.describe(draft_device)}"


def provider_name(asked: str) -> str:
    """A provider's own name, of those that it answers to.

    Raises:
        UsageError: there is none here.
    """
    from edgespec_runtimes.ort.providers import find_provider

    return find_provider(asked).name


def all_providers() -> tuple[list[ProviderInfo], list[str]]:
    """What models can run on here, and what hindered plug-ins that are installed."""
    from edgespec_runtimes.ort.providers import all_providers, unusable_plugins

    return [provider.info for provider in all_providers()], unusable_plugins()


def measure_row_invariance(
    folder: Path, exported: Exported, variant: str, device: Device = HERE
) -> RowInvariance:
    """Measures a variant on this machine; see `edgespec_runtimes.invariance`."""
    from edgespec_runtimes.invariance import MEASURED_CAPACITY, measure_row_invariance

    capacity = min(MEASURED_CAPACITY, exported.positions or MEASURED_CAPACITY)
    model = open_model(folder, exported, variant, capacity=capacity, device=device, candidates=True)
    return measure_row_invariance(model, describe(device))
