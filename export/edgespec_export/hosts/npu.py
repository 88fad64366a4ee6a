"""What a pair must be to run on an NPU: number formats, graphs for which calls, capacity.

docs/guides/npu.md says what was run where.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from edgespec.artifact.graph_io import ENCODER, MAX_ROWS
from edgespec.artifact.static_calls import StaticCalls
from edgespec.errors import EdgespecError, UsageError
from edgespec_export.calibration.calibrated import Calibration
from edgespec_export.calibration.ranges import measured_ranges
from edgespec_export.checkpoint.checkpoint import Checkpoint
from edgespec_export.components.blocks.block import Mixer
from edgespec_export.components.blocks.experts import ExpertsBlock
from edgespec_export.components.blocks.shared_attention import KeptAttention
from edgespec_export.components.blocks.short_convolution import ShortConvolution
from edgespec_export.components.blocks.source_attention import MergedAttention
from edgespec_export.components.number_format import NumberFormat
from edgespec_export.families.family import Family
from edgespec_export.hosts.host_limits import check_float32_caches
from edgespec_export.quantization.activations.qdq import QDQ_FORMATS, Qdq
from edgespec_export.quantization.formats import FORMATS

__all__ = [
    "NPU_FORMATS",
    "FixedCalls",
    "check_caches",
    "check_family",
    "fixed_calls",
    "number_format",
]

# Number format to what an NPU computes in (`StaticCalls.precision`).
NPU_FORMATS = {"fp32": "fp32", "fp16": "fp16", **dict.fromkeys(QDQ_FORMATS, "quantized")}
# γ of the calls that are exported by default: each is a graph that has to be compiled and kept.
GAMMAS = (1, 4)
CAPACITY = 512
PROMPT_ROWS = 32  # of a piece of a prompt
NO_GRAPH: dict[type[Mixer], str] = {
    ShortConvolution: "has short convolutions",
    KeptAttention: "has layers that share a layer of the cache",
    MergedAttention: "attends to its source and its cache at once",
}


@dataclass(frozen=True)
class FixedCalls:
    """The calls that graphs with fixed shapes are exported for.

    Attributes:
        rows: of the calls that return logits, increasing.
        capacity: positions of the cache, and rows of a source.
    """

    rows: tuple[int, ...]
    capacity: int

    def capacity_for(self, family: Family) -> int:
        """The capacity, or the model's positions where these are fewer."""
        return min(self.capacity, family.positions or self.capacity)

    def calls_of(self, family: Family, number_format: str) -> StaticCalls:
        """The calls of a model in one of `NPU_FORMATS`."""
        capacity, encodes = self.capacity_for(family), ENCODER in family.graphs
        return StaticCalls(
            rows=list(self.rows),
            prompt_rows=None if encodes else min(PROMPT_ROWS, capacity),
            capacity=capacity,
            source=capacity if encodes else None,
            precision=NPU_FORMATS[number_format],
        )


def check_family(family: Family) -> None:
    """Raises EdgespecError for a model whose calls cannot have fixed shapes yet, and says why."""
    reasons = [NO_GRAPH[kind] for kind in NO_GRAPH if family.has_mixer(kind)]
    if family.sound is not None:
        reasons.append("reads sound")
    if family.states:
        reasons.append("has recurrent layers")
    if any(isinstance(block, ExpertsBlock) for block in family.blocks()):
        reasons.append("has experts")
    if reasons:
        raise EdgespecError(
            f"{family.label} {' and '.join(reasons)}, which edgespec does not export for NPUs yet; "
            "leave --for npu out"
        )


@contextmanager
def number_format(
    name: str, checkpoint: Checkpoint, family: Family, calibration: Calibration, scratch: Path
) -> Iterator[NumberFormat]:
    """One of `NPU_FORMATS` for the weights of a model.

    Args:
        scratch: a folder for the model in float32, which is deleted at the end.

    Raises:
        EdgespecError: ranges of activations are needed and cannot be measured.
    """
    if name not in QDQ_FORMATS:
        yield FORMATS[name].make()
        return
    with measured_ranges(checkpoint, family, calibration, scratch) as ranges:
        yield Qdq(*QDQ_FORMATS[name], ranges.__getitem__)


def fixed_calls(gammas: Sequence[int], capacity: int | None) -> FixedCalls:
    """The calls for these numbers of drafted tokens and this capacity.

    A call of one row is never made: one of two rows has its logits. A draft and plain decoding are
    called with one or two rows, so those of two are always exported.

    Args:
        gammas: none takes the usual ones.
        capacity: None takes the usual one.

    Raises:
        UsageError: a number is out of range.
    """
    for gamma in gammas:
        if not 1 <= gamma < MAX_ROWS:
            raise UsageError(f"gamma is {gamma}; give 1 to {MAX_ROWS - 1}")
    rows = tuple(sorted({2, *(gamma + 1 for gamma in gammas or GAMMAS)}))
    capacity = CAPACITY if capacity is None else capacity
    if capacity < 2 * MAX_ROWS:
        raise UsageError(f"capacity is {capacity}; give {2 * MAX_ROWS} or more")
    return FixedCalls(rows, capacity)


def check_caches(caches: Sequence[str]) -> None:
    """Raises UsageError for formats of the cache that no graph for an NPU has."""
    check_float32_caches(caches, "an NPU")
