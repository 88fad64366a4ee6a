"""The vocabulary and the weights that a draft starts with, and where they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from edgespec.artifact.manifest import VOCABULARY
from edgespec.drafters.vocabulary_map import SomeTokens, read_vocabulary
from edgespec.errors import UsageError
from edgespec_distill.data.draft_vocabulary import DraftVocabulary, full_vocabulary
from edgespec_export.checkpoint.safetensors_file import Safetensors

__all__ = ["copy_weights", "on_device_of", "vocabulary_of"]

WEIGHTS = "model.safetensors"


def vocabulary_of(start: Path, draft_size: int | None, target_size: int) -> DraftVocabulary:
    """The draft's vocabulary: `draft_size` of the target's `target_size` tokens; None: all."""
    if draft_size is None or draft_size >= target_size:
        return full_vocabulary(target_size)
    maps = read_vocabulary(start / VOCABULARY, target_size, draft_size)
    if not isinstance(maps, SomeTokens):
        raise UsageError(f"{start} has another tokenizer than the target; start from a draft of it")
    return DraftVocabulary(torch.from_numpy(maps.outputs), torch.from_numpy(maps.inputs))


def copy_weights(model: nn.Module, start: Path) -> None:
    """Copies the weights of the finished draft into a model of the same shape.

    Raises:
        UsageError: the shapes differ, because the draft was distilled from another target.
    """
    weights = Safetensors(start / WEIGHTS)
    shapes = {name: weights.shape(name) for name in weights.names()}
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if not weight.requires_grad:  # the target's
                continue
            if shapes.get(name) != tuple(weight.shape):
                raise UsageError(
                    f"{start} has {name} of shape {shapes.get(name)}, a draft of this target has "
                    f"{tuple(weight.shape)}; start from a draft of the same target"
                )
            weight.copy_(torch.from_numpy(weights.read(name)))


def on_device_of(target: Any, draft: Any) -> Any:
    """The draft on its target's device, with parameters of the target's type.

    Buffers keep their type: the RoPE frequencies are one, and in bf16 the angles of late positions
    would differ from those in the exported graphs.
    """
    draft.to(target.device)
    for parameter in draft.parameters():
        parameter.data = parameter.data.to(target.dtype)
    return draft
