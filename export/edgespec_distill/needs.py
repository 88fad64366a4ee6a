"""What a distillation takes at most, told before it starts: an estimate from shapes alone."""

from __future__ import annotations

from dataclasses import dataclass

from edgespec_distill.models.trainable import MOST_POSITIONS
from edgespec_distill.plan import ORIGINAL, Plan
from edgespec_export.families import Family

__all__ = ["Needs", "needs_of", "positions_at_once"]

TEXTS = 4.0  # GB of them, at most

GB = 1e9
FEATURE_LAYERS = 3  # that a draft reads, at most
PROGRAM = 1.0  # GB of torch, transformers and ONNX Runtime, and of the held-out distributions
# Bytes for each parameter: of a target in a number format, kernels' copies included; of one in
# torch; and of a draft with its masters, gradients, moments and state to save.
TARGET_BYTES = {"int8": 1.3, "int4": 0.8, "int8_int4": 1.2}
WIDE_TARGET_BYTES, TORCH_BYTES, DRAFT_BYTES = 4.5, 4.0, 24.0
STORED_BYTES = 64 * 6 + 16  # of a token of the target's: 64 tokens, their log-probabilities, itself
# Of a batch, for each position and each number of a state: what a layer keeps for its gradient.
ACTIVATION_BYTES = 120


@dataclass(frozen=True)
class Needs:
    """Gigabytes, at most.

    Attributes:
        target, texts, draft: of memory: the target, what is kept of texts that are written at once,
            and the draft with its training.
        written, states: of the disk: the target's texts, and its states in them.
    """

    target: float
    texts: float
    draft: float
    written: float
    states: float

    @property
    def memory(self) -> float:
        """All of it."""
        return PROGRAM + self.target + self.texts + self.draft

    def __str__(self) -> str:
        states = f" and {self.states:.1f} GB of its states (--disk)" if self.states else ""
        return (
            f"this takes about {self.memory:.0f} GB of memory (target {self.target:.1f}, texts "
            f"written at once {self.texts:.1f}, draft {self.draft:.1f}) and {self.written:.1f} GB "
            f"of disk for what the target writes{states}"
        )


def positions_at_once(plan: Plan, family: Family) -> int:
    """How many positions the texts may have together that the target writes at once."""
    return min(MOST_POSITIONS, int(TEXTS * GB) // _position_bytes(plan, family))


def _position_bytes(plan: Plan, family: Family) -> int:
    """Of a text that is written: keys and values in fp32, and features, which are copied twice."""
    features = FEATURE_LAYERS * family.width if plan.uses_target_states else 0
    return 4 * (2 * family.cache_layers * family.kv_heads * family.head_size + 3 * features)


def needs_of(plan: Plan, family: Family, parameters: int, prompts: int, read: int = 0) -> Needs:
    """What a distillation needs.

    Args:
        plan: with its target format.
        parameters: of the target.
        prompts: their number.
        read: tokens of prompts with answers that the target reads.
    """
    width = plan.width or family.width
    tables = 2 * (plan.vocabulary or family.vocab_size) * width
    own_layers = plan.layers + (plan.encoder_layers or 0)
    draft = own_layers * 16 * width * width
    features = 0
    if plan.uses_target_states:
        features = FEATURE_LAYERS * family.width
        draft += features * width + 2 * width * width
    table_bytes = TORCH_BYTES if plan.target_tables else DRAFT_BYTES  # the target's learn nothing
    activations = plan.positions * width * own_layers * ACTIVATION_BYTES
    tokens = prompts * plan.outputs * plan.max_new_tokens + read
    target = parameters * TORCH_BYTES
    if plan.target_format != ORIGINAL:
        # Besides the export, the tables and layers that the draft starts from.
        ends = 2 * family.vocab_size * family.width + own_layers * 16 * family.width**2
        target = parameters * TARGET_BYTES.get(plan.target_format or "", WIDE_TARGET_BYTES)
        target += TORCH_BYTES * min(ends, parameters)
    return Needs(
        target=target / GB,
        texts=positions_at_once(plan, family) * _position_bytes(plan, family) / GB,
        draft=(draft * DRAFT_BYTES + tables * table_bytes + activations) / GB,
        written=tokens * STORED_BYTES / GB,
        states=min(plan.disk, tokens * features * 4 / GB),
    )
