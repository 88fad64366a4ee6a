"""The measured result of a distillation."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Acceptance", "Distillation"]


@dataclass(frozen=True)
class Acceptance:
    """How often a draft agrees with its target on held-out texts, from 0 to 1.

    Attributes:
        greedy: share of positions of the target's greedy outputs where both arg-maxes are equal.
        sampled: the paper's α at temperature 1, E Σ min(p, q), on the target's sampled outputs.
    """

    greedy: float
    sampled: float


@dataclass(frozen=True)
class Distillation:
    """A finished distillation: the draft's acceptance, and the sizes of all that went into it.

    Attributes:
        before, after: the training, on held-out prompts.
        known: greedy acceptance on texts that the draft was trained on; None if there are none.
            If it is far above `after`, more prompts would help more than more steps.
        prompts, held_out: numbers of prompts.
        output_tokens: that the target generated for training.
        target_parameters, draft_parameters: numbers of parameters.
        read_tokens: of answers that it read for training.
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
    read_tokens: int = 0
