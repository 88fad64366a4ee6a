"""What a distillation takes, told before it starts: an estimate from shapes alone.

Its figures were measured (docs/measurements/distillation.md); the peaks of runs were within a
seventh of what is told.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from edgespec.errors import UsageError
from edgespec_distill.models.trainable import EAGLE_STEPS, MOST_POSITIONS
from edgespec_distill.plan import ORIGINAL, Plan
from edgespec_export.families import Family

__all__ = ["GB", "Amounts", "Needs", "check_needs", "needs_of"]

GB = 1e9
TEXTS = 4.0  # GB of texts that are written at once, at most
FEATURE_LAYERS = 3  # that a draft reads, at most
PROGRAM = 0.7  # GB of torch, transformers and ONNX Runtime
HELD_OUT = 64, 2**28  # texts, and probabilities that are kept of them in 16 bits
FLOAT = 4  # bytes
# Bytes for each parameter of a target in a number format, as kernels read its file.
TARGET_BYTES = {"int8": 1.3, "int4": 0.8, "int8_int4": 1.2}
WIDE_TARGET_BYTES = 4.5
# Bytes for each parameter that is trained: in float32 its master, two gradients and two moments.
TRAINED_BYTES = 20
STORED_BYTES = 64 * 6 + 5  # of a token of an output: 64 tokens, their log-probabilities, itself
TEXT_BYTES, TOKEN_BYTES = 2500, 8  # in memory: of a text that is learnt, and of each of its tokens
# Numbers that a step keeps of a position: for each of its prediction's width and feed-forward
# units, and for each head and position that a later prediction looks back to.
WIDTH_NUMBERS, UNIT_NUMBERS, SCORE_NUMBERS = 26, 12, 4
FEED_FORWARD = 4  # units for each number of a state: three matrices


@dataclass(frozen=True)
class Amounts:
    """What a target writes and reads.

    Attributes:
        prompts, prompt_tokens: after which it writes.
        read, read_tokens: texts with answers, prompts included.
    """

    prompts: int
    prompt_tokens: int
    read: int = 0
    read_tokens: int = 0


@dataclass(frozen=True)
class Needs:
    """Gigabytes.

    Attributes:
        positions: that the texts may have together which the target writes at once; fewer where the
            machine has less memory.
        target, texts, draft: of memory: the target; texts that are written at once; and the draft
            with its training and the tokens of all texts. Texts are finished before it begins.
        written: of the disk: the target's texts with their distributions, its export, and the
            training's state.
        states: of the disk: the target's states of these texts, as many as are stored.
        all_states: of the disk, if all were stored.
    """

    positions: int
    target: float
    texts: float
    draft: float
    written: float
    states: float
    all_states: float

    @property
    def memory(self) -> float:
        """At once, at most."""
        return max(PROGRAM + self.target + self.texts, self.training)

    @property
    def training(self) -> float:
        """Of memory while the draft learns."""
        return PROGRAM + self.target + self.draft

    def __str__(self) -> str:
        return f"{self.of_memory} and {self.written:.1f} GB of disk{self._of_states}"

    @property
    def of_memory(self) -> str:
        """The memory in words."""
        return (
            f"this takes about {self.memory:.1f} GB of memory (programs {PROGRAM}, target "
            f"{self.target:.1f}, then texts written at once {self.texts:.1f}, or after them the "
            f"draft {self.draft:.1f})"
        )

    @property
    def _of_states(self) -> str:
        if not self.all_states:
            return ""
        if self.states >= self.all_states:
            return f" with {self.states:.1f} GB for the target's states"
        return (
            f" with {self.states:.1f} GB for the target's states (--disk), which would take "
            f"{self.all_states:.1f}; the others are computed again when a batch needs them"
        )


def _position_bytes(plan: Plan, family: Family, number_bytes: int) -> int:
    """Of a text that is written: keys and values in fp32, features and their copy for the file, and
    its share of the logits of all texts, which are copied twice."""
    features = FEATURE_LAYERS * family.width if plan.uses_target_states else 0
    logits = 3 * family.vocab_size // plan.max_new_tokens
    keys = 2 * family.cache_layers * family.kv_heads * family.head_size
    return FLOAT * (keys + features + logits) + number_bytes * features


def needs_of(
    plan: Plan,
    family: Family,
    parameters: int,
    amounts: Amounts,
    number_bytes: int = FLOAT,
    limit: float = math.inf,
) -> Needs:
    """What a distillation needs.

    Args:
        plan: with its target format.
        parameters: of the target.
        number_bytes: of a number that torch computes with.
        limit: gigabytes of memory that the machine has.
    """
    outputs = amounts.prompts * plan.outputs
    output_tokens = outputs * plan.max_new_tokens + amounts.read_tokens
    texts = outputs + amounts.read
    positions = plan.outputs * amounts.prompt_tokens + output_tokens
    features = FEATURE_LAYERS * family.width if plan.uses_target_states else 0
    ends = min(parameters, _ends(plan, family))
    trained = _trained(plan, family)
    tables = 0 if not plan.target_tables else _tables(plan, family)
    target, exported = parameters * number_bytes / GB, 0.0
    if plan.target_format != ORIGINAL:
        exported = parameters * TARGET_BYTES.get(plan.target_format or "", WIDE_TARGET_BYTES) / GB
        target = exported + ends * number_bytes / GB
    held_out = min(HELD_OUT[1], HELD_OUT[0] * plan.max_new_tokens * _tokens(plan, family))
    length = positions / max(1, texts)
    step = plan.positions * _step_numbers(plan, family, length)
    draft = trained * TRAINED_BYTES + (trained + tables + step) * number_bytes + 2 * held_out
    position = _position_bytes(plan, family, number_bytes)
    room = min(TEXTS, limit - PROGRAM - target) * GB
    at_once = min(MOST_POSITIONS, max(int(length), int(room) // position))
    shown = positions if family.encoder_layers is None else output_tokens
    all_states = shown * features * number_bytes / GB
    return Needs(
        positions=at_once,
        target=target,
        texts=min(at_once, amounts.prompts * length) * position / GB,
        draft=(draft + texts * TEXT_BYTES + positions * TOKEN_BYTES) / GB,
        written=exported + (output_tokens * STORED_BYTES + 12 * trained) / GB,
        states=min(plan.disk, all_states),
        all_states=all_states,
    )


def check_needs(needs: Needs, limit: float) -> None:
    """Refuses what a machine has no memory for.

    Args:
        limit: gigabytes that it has.

    Raises:
        UsageError: it takes more.
    """
    if needs.memory > limit:
        raise UsageError(
            f"{needs.of_memory}, and the machine has {limit:.1f}: give fewer --positions, a "
            "smaller --width or --vocabulary, or a smaller target"
        )


def _tokens(plan: Plan, family: Family) -> int:
    return min(plan.vocabulary or family.vocab_size, family.vocab_size)


def _tables(plan: Plan, family: Family) -> int:
    """Numbers in the draft's embedding and head."""
    return 2 * _tokens(plan, family) * (plan.width or family.width)


def _own_layers(plan: Plan) -> int:
    return plan.layers + (plan.encoder_layers or 0)


def _units(plan: Plan, family: Family) -> int:
    """Of a feed-forward block of the draft."""
    return plan.feed_forward or FEED_FORWARD * (plan.width or family.width)


def _trained(plan: Plan, family: Family) -> int:
    """Parameters that the draft learns."""
    width = plan.width or family.width
    layers = _own_layers(plan) * (4 * width + 3 * _units(plan, family)) * width
    reading = (FEATURE_LAYERS * family.width + 2 * width) * width
    tables = 0 if plan.target_tables else _tables(plan, family)
    return layers + tables + (reading if plan.uses_target_states else 0)


def _ends(plan: Plan, family: Family) -> int:
    """Numbers of the target that torch has beside its export: tables, and layers to start from."""
    layers = plan.layers * (4 + 3 * FEED_FORWARD) * family.width**2
    return (1 if family.tied_head else 2) * family.vocab_size * family.width + layers


def _step_numbers(plan: Plan, family: Family, length: float) -> float:
    """Numbers that a training step keeps of a position until it has its gradients.

    Args:
        length: of a text.
    """
    width, layers = plan.width or family.width, _own_layers(plan)
    predictions = EAGLE_STEPS if plan.uses_target_states else 1
    numbers = layers * (WIDTH_NUMBERS * width + UNIT_NUMBERS * _units(plan, family))
    share = plan.max_new_tokens / max(length, plan.max_new_tokens)  # of a text: its output
    logits = share * _tokens(plan, family)
    heads = width // family.head_size
    looked_back = layers * (predictions - 1) * SCORE_NUMBERS * heads * length
    return predictions * (numbers + logits) + looked_back
