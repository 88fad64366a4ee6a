"""What a draft is to be, and what came of it."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from edgespec.errors import UsageError
from edgespec_distill.data.held_out import Acceptance
from edgespec_distill.models.student import check_width
from edgespec_distill.training.loss import LOSSES
from edgespec_export.families import Family
from edgespec_export.families.llama import Llama
from edgespec_export.families.t5 import T5

__all__ = ["SHAPE", "Distillation", "Plan", "check_plan", "plan_for"]

SHAPE = ("layers", "eagle", "encoder_layers", "width", "vocabulary")  # a draft's, of the plan

LEAST = {
    "steps": 1,
    "layers": 1,
    "encoder_layers": 1,
    "outputs": 1,
    "max_new_tokens": 1,
    "positions": 1,
    "vocabulary": 2,
}


@dataclass(frozen=True)
class Plan:
    """What a draft is to be and how it is trained.

    Attributes:
        layers: of the decoder.
        eagle: the draft reads its target's hidden states; Llama-like targets only.
        encoder_layers: of the encoder, if there is one; None takes as many as of the decoder.
        width: of the hidden states; None keeps the target's width and starts from its layers.
        vocabulary: how many of the target's tokens the draft keeps; None keeps all.
        minutes, steps: how long; one of them. Steps make the result reproducible.
        loss: "kl" or "tv".
        on_policy: train on what the draft writes, not on what the target wrote.
        outputs: texts that the target writes after each prompt.
        max_new_tokens: of each text.
        positions: of a training batch.
        rate: the highest learning rate.
        chat: put the target's chat format around the prompts; None if it has one.
        seed: of everything that is drawn.
        start: the folder of a finished draft to go on from, instead of from the target's weights;
            the draft is then of its shape, whatever the plan says of that.
    """

    layers: int
    eagle: bool = False
    encoder_layers: int | None = None
    width: int | None = None
    vocabulary: int | None = None
    minutes: float | None = None
    steps: int | None = None
    loss: str = "kl"
    on_policy: bool = False
    outputs: int = 2
    max_new_tokens: int = 128
    positions: int = 4096
    rate: float = 1e-3
    chat: bool | None = None
    seed: int = 0
    start: str | None = None


@dataclass(frozen=True)
class Distillation:
    """What came of it: the draft's acceptance on held-out prompts, and sizes in parameters.

    Attributes:
        known: greedy acceptance on texts that were trained on; None if there are none. Far above
            `after`, more prompts would help more than more steps.
    """

    before: Acceptance
    after: Acceptance
    known: float | None
    prompts: int
    held_out: int
    output_tokens: int
    steps: int
    minutes: float
    target_parameters: int
    draft_parameters: int


def check_plan(plan: Plan) -> None:
    """Raises UsageError where no target could be given such a draft."""
    if plan.loss not in LOSSES:
        raise UsageError(f"no loss {plan.loss!r}; there is: {', '.join(LOSSES)}")
    if plan.eagle and plan.on_policy:
        raise UsageError("a draft that reads hidden states (eagle) is not trained on_policy")
    if (plan.minutes is None) == (plan.steps is None):
        raise UsageError("give --minutes or --steps, one of them: how long to train")
    for name in ("minutes", "rate"):
        number = getattr(plan, name)
        if number is not None and not 0 < number < math.inf:  # NaN is in no range
            raise UsageError(f"{name} is {number}; give a number above 0")
    for name, least in LEAST.items():
        count = getattr(plan, name)
        if count is not None and count < least:
            raise UsageError(f"{name} is {count}; give {least} or more")


def plan_for(plan: Plan, family: Family) -> Plan:
    """The plan for this target, its encoder's layers counted out.

    Raises:
        UsageError: no draft of this target can be such.
    """
    if plan.eagle and not isinstance(family, Llama):
        raise UsageError(
            "a draft that reads hidden states (eagle) needs a Llama-like target; leave eagle out"
        )
    assert isinstance(family, Llama | T5)  # no draft is a target
    if plan.layers > family.layers:
        raise UsageError(f"layers is {plan.layers}; the target has {family.layers}: give fewer")
    check_width(plan.width, family.width)
    return dataclasses.replace(plan, encoder_layers=_encoder_layers(plan, family))


def _encoder_layers(plan: Plan, family: Llama | T5) -> int | None:
    asked = plan.encoder_layers
    if isinstance(family, Llama):
        if asked is not None:
            raise UsageError(f"encoder_layers is {asked}; the target has no encoder: leave it out")
        return None
    count, most = asked or plan.layers, family.encoder_layers
    if count > most:
        as_many = "" if asked else " (as many as layers)"
        raise UsageError(f"encoder_layers is {count}{as_many}; the target has {most}: give fewer")
    return count
