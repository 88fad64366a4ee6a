"""A finished draft that another training goes on from."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import torch

from edgespec.artifact.manifest import VOCABULARY
from edgespec.drafters.vocabulary_map import read_vocabulary
from edgespec.errors import UsageError
from edgespec_distill.card import RECORD
from edgespec_distill.data.draft_vocabulary import Vocabulary, whole
from edgespec_distill.plan import SHAPE, Plan
from edgespec_export.checkpoint.safetensors_file import Safetensors

__all__ = ["shaped", "take_weights", "vocabulary_of"]

WEIGHTS = "model.safetensors"


def shaped(plan: Plan) -> Plan:
    """The plan with the shape of the draft it starts from, if there is one.

    Raises:
        UsageError: `plan.start` is not a folder that `edgespec distill` wrote.
    """
    if plan.start is None:
        return plan
    try:
        record = json.loads((Path(plan.start) / RECORD).read_text(encoding="utf-8"))
        shape = Plan(layers=record["plan"]["layers"])  # older records know fewer choices
        known = {name: record["plan"].get(name, getattr(shape, name)) for name in SHAPE}
        return dataclasses.replace(plan, **known)
    except (OSError, ValueError, TypeError, KeyError):
        raise UsageError(
            f"start is {plan.start}, which is no draft that edgespec distill wrote (no {RECORD} of "
            "one); give the folder of such a draft"
        ) from None


def vocabulary_of(start: Path, draft_size: int | None, target_size: int) -> Vocabulary:
    """The tokens that the draft has: `draft_size` of its target's `target_size`, or all."""
    if draft_size is None or draft_size >= target_size:
        return whole(target_size)
    maps = read_vocabulary(start / VOCABULARY, target_size, draft_size)
    return Vocabulary(torch.from_numpy(maps.outputs), torch.from_numpy(maps.inputs))


def take_weights(model: Any, start: Path) -> None:
    """Gives a draft of the same shape the weights of the finished one.

    Raises:
        UsageError: it was distilled from another kind of target.
    """
    weights = Safetensors(start / WEIGHTS)
    shapes = {name: weights.shape(name) for name in weights.names()}
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if shapes.get(name) != tuple(weight.shape):
                raise UsageError(
                    f"{start} has {name} of {shapes.get(name)} and a draft of this target has it "
                    f"of {tuple(weight.shape)}; start from a draft of the same target"
                )
            weight.copy_(torch.from_numpy(weights.read(name)))
