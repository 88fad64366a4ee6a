"""The functions of `edgespec_runtimes` that pairs use, imported when they are called."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, Unpack

from edgespec.artifact.graph_io import DECODER
from edgespec.artifact.manifest import Exported
from edgespec.artifact.row_invariance import RowInvariance
from edgespec.artifact.speech_format import read_speech_format
from edgespec.audio.sample_sound import sample_log_mel
from edgespec.core.model import Model
from edgespec.device.device import HERE, Device, ProviderInfo
from edgespec.device.live_progress import say_live
from edgespec.errors import EdgespecError

if TYPE_CHECKING:
    from edgespec_runtimes.machine import Machine
    from edgespec_runtimes.ort.ort_model import ModelOptions
    from edgespec_runtimes.ort.ort_model import OrtModel as OrtModel
    from edgespec_runtimes.ort.ort_speech import OrtSpeech as OrtSpeech
    from edgespec_runtimes.ort.voice_model import VoiceModel as VoiceModel

__all__ = [
    "all_providers",
    "checked_capacity",
    "hear_sample",
    "machine_of",
    "measure_row_invariance",
    "open_model",
    "open_voice_model",
    "provider_name",
]


def open_model(
    folder: Path,
    exported: Exported,
    variant: str,
    *,
    target: Model | None = None,
    **options: Unpack[ModelOptions],
) -> OrtModel:
    """A model on ONNX Runtime; arguments as of `edgespec_runtimes.ort.ort_model.OrtModel`.

    Args:
        target: of a draft; one that reads its target needs it.

    Raises:
        EdgespecError: such a draft without its target, or the model cannot be opened.
    """
    from edgespec_runtimes.ort.ort_model import OrtModel
    from edgespec_runtimes.ort.ort_speech import OrtSpeech

    if not (exported.is_eagle_head or exported.shares_encoder):
        model = OrtSpeech if exported.is_speech else OrtModel
        return model(folder, exported, variant, **options)
    from edgespec_runtimes.ort.reading.ort_assistant import OrtAssistant
    from edgespec_runtimes.ort.reading.ort_block import OrtBlock
    from edgespec_runtimes.ort.reading.ort_eagle import OrtEagle
    from edgespec_runtimes.ort.reading.ort_masked_block import OrtMaskedBlock
    from edgespec_runtimes.ort.reading.ort_shared_encoder import OrtSharedEncoder

    if not isinstance(target, OrtModel):
        raise EdgespecError(f"{exported.source} reads its target's hidden states; open it with one")
    if exported.shares_encoder:
        draft: type[OrtSharedEncoder | OrtEagle | OrtAssistant] = OrtSharedEncoder
    elif exported.reads_target_cache:
        draft = OrtAssistant
    else:
        draft = OrtBlock if exported.is_block_draft else OrtEagle
        draft = draft if exported.block_rows is None else OrtMaskedBlock
    return draft(folder, exported, variant, target, **options)


def checked_capacity(exported: Exported, capacity: int) -> int:
    """The capacity of a cache; raises UsageError where the model takes none so large."""
    from edgespec_runtimes.ort.cached_sequence import checked_capacity

    return checked_capacity(exported, capacity)


def machine_of(device: Device, draft_device: Device | None = None) -> Machine:
    """What a measurement is made on; see `edgespec_runtimes.machine`.

    Args:
        draft_device: of a measurement that a draft model is part of.

    Raises:
        UsageError: there is no such provider here.
    """
    from edgespec_runtimes import machine

    return machine.machine_of(device, draft_device)


def provider_name(asked: str) -> str:
    """The name that edgespec gives a provider, from any name that it answers to.

    Raises:
        UsageError: there is no such provider here.
    """
    from edgespec_runtimes.ort.providers import find_provider

    return find_provider(asked).name


def all_providers() -> tuple[list[ProviderInfo], list[str]]:
    """The execution providers of this machine, and a line for each plug-in that cannot be used."""
    from edgespec_runtimes.ort.providers import all_providers, unusable_plugins

    return [provider.info for provider in all_providers()], unusable_plugins()


def open_voice_model() -> VoiceModel:
    """A model that says where somebody speaks; see `edgespec_runtimes.ort.voice_model`."""
    from edgespec_runtimes.ort.voice_model import VoiceModel

    return VoiceModel()


def hear_sample(folder: Path, exported: Exported, variant: str, model: Model) -> None:
    """Gives a speech model the sound that models are measured on; others need none."""
    from edgespec_runtimes.ort.ort_speech import OrtSpeech

    if isinstance(model, OrtSpeech):
        graph = folder / exported.variants[variant].graphs[DECODER]
        speech = read_speech_format(graph.parent.parent)
        model.hear(sample_log_mel(speech.mel_bins, speech.frames))


def measure_row_invariance(
    folder: Path,
    exported: Exported,
    variant: str,
    device: Device = HERE,
    *,
    calls: Literal["check", "short", "long", "rows"] = "short",
    capacity: int | None = None,
) -> RowInvariance:
    """Measures a variant on this machine; see `edgespec_runtimes.invariance`.

    Args:
        calls: how many are compared: "check" suffices where the logits' digest is known already,
            "long" is every call that can be compared; "rows" asks only which numbers of rows agree
            (`edgespec_runtimes.invariance_by_rows`).
        capacity: of the cache; None takes what the calls need.
    """
    from edgespec_runtimes import invariance
    from edgespec_runtimes.invariance_by_rows import measure_by_rows

    plans = {"check": invariance.CHECK, "short": invariance.SHORT, "long": invariance.LONG}
    if capacity is None:
        capacity = invariance.MEASURED_CAPACITY
        capacity = min(capacity, exported.positions or capacity)
    model = open_model(folder, exported, variant, capacity=capacity, device=device, candidates=True)
    hear_sample(folder, exported, variant, model)
    static = exported.variants[variant].static
    try:
        if static is not None:
            plan = invariance.static_plan(static.rows, model.capacity, long=calls == "long")
            return invariance.measure_row_invariance(model, machine_of(device), plan)
        if calls == "rows":
            return measure_by_rows(model, machine_of(device))
        return invariance.measure_row_invariance(model, machine_of(device), plans[calls])
    finally:
        say_live("")
