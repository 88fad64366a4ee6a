"""What was measured of an exported variant: row invariance, distance from another variant."""

from __future__ import annotations

from dataclasses import dataclass

from edgespec.artifact.graph_io import MAX_ROWS

__all__ = ["Distance", "RowInvariance"]


@dataclass(frozen=True)
class RowInvariance:
    """Whether a position's logits have the same bits whatever else is in the call.

    Attributes:
        is_row_invariant: true if they had, for every number of positions from `min_rows` to
            `max_rows` and with the other rows changed. Only then may the variant be a target.
        min_rows: the fewest positions a call may hold: 1, or more where shorter calls take another
            kernel (a single token is then padded, and the cache rewound).
        max_rows: the most positions that were measured.
        one_row_difference: largest |difference| of a logit between a call of one position and
            longer calls.
        measured_on: runtime, provider, threads and processor, for people.
        machine: digest of the record of all these; the result holds where it is the same.
        candidates: a candidate's logits, keys and values have the bits of an ordinary call.
        texts: a row's logits, keys and values have the same bits whatever other texts' rows are in
            its call, and however many.
        kernels: name and version of edgespec's kernels that ran; empty if none did.
        logits: SHA-256 of the logits that were compared: the same elsewhere if the bits are.
    """

    is_row_invariant: bool
    min_rows: int
    max_rows: int
    one_row_difference: float
    measured_on: str
    machine: str
    candidates: bool
    texts: bool
    kernels: str = ""
    logits: str = ""

    def __post_init__(self) -> None:
        if not 1 <= self.min_rows <= self.max_rows <= MAX_ROWS:
            raise ValueError(f"min_rows is {self.min_rows}, max_rows {self.max_rows}")


@dataclass(frozen=True)
class Distance:
    """How far a variant's distributions are from those of another variant, on a sample of text.

    Attributes:
        reference: the other variant ("fp32").
        kl: mean KL(reference, variant) of the next token's distribution at temperature 1, in nats.
        top1: share of positions where both have the same most probable token.
        perplexity, reference_perplexity: of the sample's tokens under each.
        positions: in the sample.
    """

    reference: str
    kl: float
    top1: float
    perplexity: float
    reference_perplexity: float
    positions: int

    def __str__(self) -> str:
        return (
            f"KL {self.kl:.4f} from {self.reference}, same first choice {self.top1:.1%}, "
            f"perplexity {self.perplexity:.2f} ({self.reference} {self.reference_perplexity:.2f})"
        )
