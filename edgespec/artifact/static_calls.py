"""The calls of a variant whose graphs have fixed shapes, as the compilers of NPUs ask for.

Such a variant has a decoder graph for each number of rows, over one file of weights. A second graph
computes on the processor what the decoder reads beside the cache: rows of tables, and what a call's
positions decide (masks, rotary angles, biases of distances).
"""

from __future__ import annotations

from dataclasses import dataclass

from edgespec.artifact.graph_io import MAX_ROWS

__all__ = [
    "PRECISIONS",
    "PROMPT",
    "SOURCE_LENGTH",
    "StaticCalls",
    "call_name",
    "host_name",
]

# Names of graphs (`Variant.graphs`); those of the host end in "-host".
PROMPT = "prompt"  # tokens [prompt_rows] to keys and values: no logits
SOURCE_LENGTH = "source_length"  # int64 [1], an input of the host's graph: rows of the source
# What an NPU computes in: "fp16" lets it round float32 graphs, "quantized" graphs say it.
PRECISIONS = ("fp32", "fp16", "quantized")


@dataclass(frozen=True)
class StaticCalls:
    """The graphs of a variant, and what they hold.

    Attributes:
        rows: of the calls that return logits, increasing; a call with fewer is padded.
        prompt_rows: of the call that computes a piece of a prompt; None where an encoder reads it.
        capacity: positions that every call attends to; those that are not valid are masked.
        source: rows of a source that the decoder reads; None without an encoder.
        precision: one of `PRECISIONS`.
    """

    rows: list[int]
    prompt_rows: int | None
    capacity: int
    source: int | None
    precision: str

    def __post_init__(self) -> None:
        increasing = all(a < b for a, b in zip(self.rows, self.rows[1:], strict=False))
        if not (self.rows and increasing and self.rows[0] >= 2 and self.rows[-1] <= MAX_ROWS):
            raise ValueError(f"rows are {self.rows}")
        longest = max(self.rows[-1], self.prompt_rows or 1)
        if not 1 <= longest <= self.capacity or self.prompt_rows == 0:
            raise ValueError(f"capacity is {self.capacity}, prompt_rows {self.prompt_rows}")
        if self.source is not None and self.source < 1:
            raise ValueError(f"source is {self.source}")
        if self.precision not in PRECISIONS:
            raise ValueError(f"precision is {self.precision!r}")

    @property
    def widest(self) -> int:
        """Rows of the widest call that returns logits."""
        return self.rows[-1]

    def fitting(self, rows: int) -> int:
        """Rows of the narrowest call that holds so many; of the widest where none does."""
        return next((width for width in self.rows if width >= rows), self.widest)

    @property
    def graphs(self) -> dict[str, int]:
        """Name of each decoder graph to its rows; that of the widest call is `DECODER`, too."""
        of_prompt = {} if self.prompt_rows is None else {PROMPT: self.prompt_rows}
        return {call_name(rows): rows for rows in self.rows} | of_prompt

    @property
    def graph_names(self) -> frozenset[str]:
        """Names of all these graphs, and of the host's."""
        return frozenset(self.graphs) | frozenset(map(host_name, self.graphs))


def call_name(rows: int) -> str:
    """The name of the graph of a call with so many rows."""
    return f"decoder-{rows}"


def host_name(graph: str) -> str:
    """The name of the host's graph for a decoder graph."""
    return f"{graph}-host"
