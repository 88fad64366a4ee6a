"""The shape of a draft and how it is trained, checked before torch is loaded."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TypeGuard

from edgespec.artifact.graph_io import MAX_ROWS
from edgespec.errors import UsageError
from edgespec_export.components.norms.norm import RmsNorm
from edgespec_export.families import Family
from edgespec_export.families.decoder_only import DecoderOnly
from edgespec_export.families.llama_like.llama import Llama
from edgespec_export.families.t5 import T5
from edgespec_export.quantization.formats import FORMATS

__all__ = [
    "LOSS_NAMES",
    "ORIGINAL",
    "SHAPE",
    "Plan",
    "check_answers",
    "check_plan",
    "has_known_layers",
    "is_known_llama",
    "plan_for",
]

SHAPE = (
    "layers",
    "eagle",
    "block",
    "encoder_layers",
    "share_encoder",
    "width",
    "feed_forward",
    "vocabulary",
    "target_tables",
)  # fields of the draft's shape

ORIGINAL = "original"  # the target as transformers runs it

LOSS_NAMES = {
    "kl": "forward KL",
    "tv": "total variation",
    "mixed": ".9 total variation and .1 forward KL",
}

MINIMUM = {
    "own_prompts": 0,
    "steps": 1,
    "layers": 1,
    "block": 2,
    "feed_forward": 1,
    "encoder_layers": 1,
    "outputs": 1,
    "max_new_tokens": 1,
    "positions": 1,
    "vocabulary": 3,  # kernels ask for the three most probable tokens
}
# An 8-bit export rotates the residual stream in blocks of a power of two columns.
WIDTH_UNIT = 16


@dataclass(frozen=True)
class Plan:
    """The shape of a draft and how it is trained.

    Attributes:
        layers: number of decoder layers.
        eagle: make an EAGLE head, which reads the target's hidden states; decoder-only and T5-like
            targets.
        block: make a block draft, which reads them, too, and drafts this many tokens with one call.
        encoder_layers: number of encoder layers, if it has an encoder; None: as many as `layers`.
        share_encoder: make a draft without an encoder, which reads the target's; T5-like targets
            only.
        width: of the hidden states; None: the target's width, with the target's layers to start.
        feed_forward: width of the feed-forward blocks of a draft that reads its target's states;
            None: the target's. The units that write most start it.
        vocabulary: number of the target's tokens that the draft has; None: all.
        target_tables: embedding and head of an EAGLE draft are rows of its target's, which are
            neither trained nor stored.
        minutes, steps: the length of the training; give one of them. With steps the result is
            reproducible.
        loss: a key of `LOSS_NAMES`.
        on_policy: train on texts of the draft instead of texts of the target.
        outputs: texts that the target generates after each prompt.
        max_new_tokens: of each text.
        positions: of a training batch.
        rate: the highest learning rate.
        chat: put the target's chat format around the prompts; None: if the target has one.
        seed: of all random numbers.
        start: folder of a finished draft whose training is continued; its shape replaces the shape
            in this plan. None: start from the target's weights.
        target_format: number format of the target whose texts are learnt, as kernels run its
            export; `ORIGINAL`: the checkpoint as transformers runs it. None: int8 where kernels are
            installed and torch has no GPU, or where only the export computes the target; else
            `ORIGINAL`.
        own_prompts: how many prompts a chat target writes itself, besides those that are given.
        disk: gigabytes that the target's states may take; those of further texts are computed again
            each time a text is read, with the same result.
    """

    layers: int
    eagle: bool = False
    block: int | None = None
    encoder_layers: int | None = None
    share_encoder: bool = False
    width: int | None = None
    feed_forward: int | None = None
    vocabulary: int | None = None
    target_tables: bool = False
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
    target_format: str | None = None
    own_prompts: int = 0
    disk: float = 20.0

    @property
    def uses_target_states(self) -> bool:
        """Whether the draft reads its target's hidden states."""
        return self.eagle or self.block is not None


def check_plan(plan: Plan) -> None:
    """Checks what does not depend on the target.

    Raises:
        UsageError: no target can have such a draft.
    """
    if plan.loss not in LOSS_NAMES:
        raise UsageError(f"loss is {plan.loss!r}; give one of: {', '.join(LOSS_NAMES)}")
    formats = [*FORMATS, ORIGINAL]
    if plan.target_format not in (None, *formats):
        raise UsageError(
            f"target_format is {plan.target_format!r}; give one of: {', '.join(formats)}"
        )
    if plan.eagle and plan.block is not None:
        raise UsageError("a draft is eagle or has a block; leave one of them out")
    if plan.uses_target_states and plan.on_policy:
        raise UsageError(f"{_kind(plan)} is not trained on_policy; leave one of them out")
    if plan.feed_forward is not None and not plan.uses_target_states:
        raise UsageError("feed_forward goes with eagle or block; leave it out, or give one of them")
    if plan.target_tables and not (plan.eagle and plan.width is None):
        raise UsageError(
            "target_tables goes with eagle, in the target's width; leave it out, or give eagle and "
            "no width"
        )
    if plan.share_encoder:
        _check_shared_encoder(plan)
    if (plan.minutes is None) == (plan.steps is None):
        raise UsageError("give --minutes or --steps, one of them: how long to train")
    for name in ("minutes", "rate"):
        number = getattr(plan, name)
        if number is not None and not 0 < number < math.inf:  # false for NaN
            raise UsageError(f"{name} is {number}; give a number above 0")
    if plan.block is not None and plan.block > MAX_ROWS:
        raise UsageError(f"block is {plan.block}; give at most {MAX_ROWS}")
    if not 0 <= plan.disk < math.inf:
        raise UsageError(f"disk is {plan.disk}; give gigabytes, 0 or more")
    for name, minimum in MINIMUM.items():
        count = getattr(plan, name)
        if count is not None and count < minimum:
            raise UsageError(f"{name} is {count}; give {minimum} or more")


def check_answers(plan: Plan) -> None:
    """Raises UsageError if such a draft does not learn from answers that its target only reads."""
    if not plan.uses_target_states:
        raise UsageError(
            "answers are read for drafts that read their target's states; leave answers out, or "
            "give eagle or block"
        )


def _check_shared_encoder(plan: Plan) -> None:
    others = {
        "eagle": plan.eagle,
        "block": plan.block is not None,
        "encoder_layers": plan.encoder_layers is not None,
        "on_policy": plan.on_policy,
    }
    for name, given in others.items():
        if given:
            raise UsageError(f"share_encoder does not go with {name}; leave one of them out")


def plan_for(plan: Plan, family: Family) -> Plan:
    """The plan for this target, with the number of encoder layers filled in.

    Raises:
        UsageError: this target cannot have such a draft, or its family cannot be distilled.
    """
    has_encoder = family.encoder_layers is not None
    if plan.uses_target_states:
        _check_readable(plan, family)
    elif not has_known_layers(plan, family):
        raise UsageError(
            f"{_what_is(family)}; distill supports targets of the families 'llama' and 't5'"
            f"{', and of others drafts that read their states (eagle, block)' * _shows(family)}"
        )
    if plan.share_encoder and not has_encoder:
        raise UsageError(f"{family.label} has no encoder; leave share_encoder out")
    if plan.layers > family.layers:
        raise UsageError(f"layers is {plan.layers}; the target has {family.layers}: give fewer")
    _check_width(plan.width, family.width)
    return dataclasses.replace(plan, encoder_layers=_encoder_layers(plan, family.encoder_layers))


def is_known_llama(family: Family) -> TypeGuard[Llama]:
    """Whether the training computes the layers of such a target as a Llama's; families derived from
    it compute something else."""
    return type(family) is Llama and family.widest_window is None


def has_known_layers(plan: Plan, family: Family) -> bool:
    """Whether the training computes the layers of such a target; the states of a T5 come from its
    export alone."""
    return is_known_llama(family) or (type(family) is T5 and not plan.uses_target_states)


def _shows(family: Family) -> bool:
    """Whether a draft can read the states after its layers, and start from its head."""
    return isinstance(family, T5) or (
        isinstance(family, DecoderOnly)
        and not family.is_recurrent
        and isinstance(family.last_norm, RmsNorm)
        and family.with_layer_outputs([family.layers]) is not None
    )


def _check_readable(plan: Plan, family: Family) -> None:
    """Raises UsageError if no draft can read the target's states, or not as the plan says."""
    option = "eagle" if plan.eagle else "block"
    if not _shows(family):
        raise UsageError(
            f"{_what_is(family)}; {_kind(plan)} needs a T5-like target, or a decoder-only one with "
            f"attention in all layers and an RMS norm before its head: leave {option} out"
        )
    if plan.target_format == ORIGINAL and not is_known_llama(family):
        raise UsageError(
            f"{_what_is(family)}, whose states only its export computes here; leave "
            f"target_format {ORIGINAL!r} out"
        )
    if plan.encoder_layers is not None:
        raise UsageError(
            f"encoder_layers is {plan.encoder_layers}; {_kind(plan)} has no encoder: leave it out"
        )


def _what_is(family: Family) -> str:
    windows = family.widest_window
    seen = "" if windows is None else f" with layers that see {windows} positions only"
    return f"{family.label}: is of family {family.family!r}{seen}"


def _kind(plan: Plan) -> str:
    """A draft that reads its target's hidden states, with the option that asks for it."""
    return "an EAGLE draft (eagle)" if plan.eagle else "a block draft (block)"


def _encoder_layers(plan: Plan, most: int | None) -> int | None:
    """Of the draft, whose target has `most`; None for a draft without an encoder."""
    asked = plan.encoder_layers
    if most is None:
        if asked is not None:
            raise UsageError(f"encoder_layers is {asked}; the target has no encoder: leave it out")
        return None
    if plan.share_encoder or plan.uses_target_states:
        return None
    count = asked or plan.layers
    if count > most:
        as_many = "" if asked else " (as many as layers)"
        raise UsageError(f"encoder_layers is {count}{as_many}; the target has {most}: give fewer")
    return count


def _check_width(width: int | None, target_width: int) -> None:
    """Raises UsageError if a draft cannot have this width.

    The size of a head stays the target's, so nothing else depends on the width.
    """
    if width is None or width == target_width:
        return
    if width % WIDTH_UNIT or not 0 < width < target_width:
        raise UsageError(
            f"width is {width}; give a multiple of {WIDTH_UNIT} below the target's, which is "
            f"{target_width}, or leave it out"
        )
