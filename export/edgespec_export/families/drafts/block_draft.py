"""Block drafts: EAGLE heads that compute the rows of several drafted tokens with one call.

All rows of a block start from the last known token and the target's state before it; the row that
is i positions ahead adds row i of a table. What a drafted token says about the one after it comes
from a second, low-rank table (the graph of transitions), so each distribution is known when its
token is drawn. docs/decisions/0028-block-drafts.md says where it comes from and what differs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np
import onnx_ir as ir

from edgespec.artifact import graph_io
from edgespec_export.components.attention.attention import Attention
from edgespec_export.components.linear import Linear
from edgespec_export.components.number_format import NumberFormat
from edgespec_export.components.positions import Positions
from edgespec_export.components.residual_stream import ResidualStream
from edgespec_export.families.drafts.eagle import Eagle
from edgespec_export.families.model_config import Config
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["BlockDraft"]

AHEAD = "ahead.weight"
BEFORE, NEXT = "markov.before.weight", "markov.next.weight"
CONFIDENCE = "confidence"


@dataclass(frozen=True, kw_only=True)
class BlockDraft(Eagle):
    """An EAGLE head whose calls also compute the rows after the last one.

    Attributes:
        block: how many tokens one call drafts.
    """

    family = "block"
    target_inputs = "its target's hidden states (a draft of blocks)"
    model_types = ("block",)

    block: int

    @property
    def graphs(self) -> tuple[str, ...]:
        return (*super().graphs, graph_io.TRANSITION)

    @classmethod
    def from_config(cls, values: dict[str, object], label: str) -> Self:
        rest = {name: value for name, value in values.items() if name != "block_size"}
        eagle = Eagle.from_config(rest, label)
        block = Config(values, label).count("block_size")
        if not 2 <= block <= graph_io.MAX_ROWS:
            raise ValueError(f"block_size is {block}, not 2 to {graph_io.MAX_ROWS}")
        return cls(
            **{field.name: getattr(eagle, field.name) for field in fields(eagle)}, block=block
        )

    def emit(self, g: Graph, number_format: NumberFormat, attention: Attention) -> None:
        if g.name == graph_io.TRANSITION:
            self._transition(g, number_format)
            return
        super().emit(g, number_format, attention)
        if g.name == graph_io.DECODER:
            g.metadata[graph_io.BLOCK] = str(self.block)

    def entering(
        self,
        g: Graph,
        tokens: ir.Value,
        states: ir.Value,
        positions: Positions,
        number_format: NumberFormat,
    ) -> ir.Value:
        """The first rows, and what they are ahead: the last rows of a call are 1, 2, … ahead of
        the one before them."""
        rows = super().entering(g, tokens, states, positions, number_format)
        ahead = g.default_input(graph_io.AHEAD, [0], np.int64, [1])
        scalar = g.constant([], np.int64)
        last_known = g.op.Sub(g.op.Sub(positions.count, ahead), g.ints(1))  # [1]
        end = g.op.Reshape(positions.count, scalar)
        index = g.op.Range(g.constant(0, np.int64), end, g.constant(1, np.int64))
        after = g.op.Max(g.op.Sub(index, last_known), g.ints(0))  # [m]
        return g.op.Add(rows, number_format.table(g, after, AHEAD))

    def leaving(self, g: Graph, x: ir.Value, number_format: NumberFormat) -> None:
        """Emits each row's confidence, in float32: it is one number."""
        rows = self.last_norm.emit(g, number_format.unrotated(g, x, self.width))
        weight, bias = (g.weight(f"{CONFIDENCE}.{part}") for part in ("weight", "bias"))
        confidence = g.op.Sigmoid(g.op.Gemm(rows, weight, bias, transB=1))
        g.output(graph_io.CONFIDENCE, confidence, np.float32, ["m", 1])

    def _transition(self, g: Graph, number_format: NumberFormat) -> None:
        """What each token adds to the logits of the next one."""
        tokens = g.input(graph_io.TOKENS, np.int64, ["m"])
        (added,) = number_format.linear(g, number_format.table(g, tokens, BEFORE), Linear((NEXT,)))
        g.output(graph_io.LOGITS, added, np.float32, ["m", self.vocab_size])

    def shapes(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        yield from super().shapes()
        yield AHEAD, (self.block, self.width)

    def residual_stream(self) -> ResidualStream:
        """Rows of the table of positions are added to the stream."""
        eagle = super().residual_stream()
        return replace(eagle, tables=eagle.tables.union({AHEAD}))
