"""What a drafted token says about the one after it: the graph of transitions of a block of masks.

DSpark: logits + w2 · w1[token], or with a gate of the row's hidden state
DFlash-2: of the row's best tokens, logit + Σ before[token] · (projection of the state) · after
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from edgespec.artifact import graph_io
from edgespec_export.components.linear import Linear
from edgespec_export.components.number_format import NumberFormat
from edgespec_export.families.drafts.masked.block_config import Markov, Selector
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["Transition"]

MARKOV = "markov_head"
BEFORE, NEXT = f"{MARKOV}.markov_w1.weight", f"{MARKOV}.markov_w2.weight"
GATE = f"{MARKOV}.gate_proj"
CONFIDENCE = "confidence_head.proj"
SELECTOR = "candidate_selector"
PREDECESSORS, SUCCESSORS = (f"{SELECTOR}.{side}_codebook" for side in ("predecessor", "successor"))
PROJECTION = f"{SELECTOR}.hidden_projection"
NEVER = -1e30  # the logit of a token that is not among the best


@dataclass(frozen=True)
class Transition:
    """The graph of transitions; its attributes are those of `MaskedBlock`."""

    width: int
    vocab_size: int
    markov: Markov | None
    selector: Selector | None
    has_confidence: bool
    confidence_reads_token: bool

    @property
    def is_needed(self) -> bool:
        return self.has_confidence or self.markov is not None or self.selector is not None

    @property
    def reads_states(self) -> bool:
        """Whether it reads the hidden states of rows."""
        gated = self.markov is not None and self.markov.is_gated
        return self.has_confidence or gated or self.selector is not None

    def emit(self, g: Graph, number_format: NumberFormat) -> None:
        """From the token before each row and what the decoder returned of the row to its logits
        and its confidence."""
        tokens = g.input(graph_io.TOKENS, np.int64, ["m"])
        state = None
        if self.reads_states:
            state = g.input(graph_io.SLOT_STATES, np.float32, ["m", self.width])
        before = None
        if self.markov is not None:
            before = number_format.table(g, tokens, BEFORE)
            used = before if not self.markov.is_gated else _gated(g, state, before, number_format)
            (added,) = number_format.linear(g, used, Linear((NEXT,)))
            self._output(g, g.op.Add(self._logits(g), added))
        elif self.selector is not None:
            assert state is not None, "a selector reads states"
            self._output(g, self._selected(g, tokens, state, number_format))
        if self.has_confidence:
            assert state is not None, "a confidence reads states"
            read = state
            if self.confidence_reads_token:
                assert before is not None, "its config says that there is a table"
                read = g.op.Concat(state, before, axis=1)
            weight, bias = (g.weight(f"{CONFIDENCE}.{part}") for part in ("weight", "bias"))
            confidence = g.op.Sigmoid(g.op.Gemm(read, weight, bias, transB=1))
            g.output(graph_io.CONFIDENCE, confidence, np.float32, ["m", 1])

    def _logits(self, g: Graph) -> ir.Value:
        return g.input(graph_io.SLOT_LOGITS, np.float32, ["m", self.vocab_size])

    def _output(self, g: Graph, logits: ir.Value) -> None:
        g.output(graph_io.LOGITS, logits, np.float32, ["m", self.vocab_size])

    def _selected(
        self, g: Graph, tokens: ir.Value, state: ir.Value, number_format: NumberFormat
    ) -> ir.Value:
        """Scores of the best tokens, and `NEVER` for the others."""
        assert self.selector is not None, "asked for a selector"
        best, ids = g.largest(self._logits(g), g.ints(self.selector.count))  # [m, count]
        (projected,) = number_format.linear(g, state, Linear.named(PROJECTION))
        before = number_format.table(g, tokens, PREDECESSORS)
        context = g.op.Unsqueeze(g.op.Mul(before, projected), g.ints(2))  # [m, rank, 1]
        rows = number_format.table(g, g.op.Reshape(ids, g.ints(-1)), SUCCESSORS)
        after = g.op.Reshape(rows, g.ints(-1, self.selector.count, self.selector.rank))
        scores = g.op.Add(best, g.op.Squeeze(g.op.MatMul(after, context), g.ints(2)))
        every = g.op.Concat(g.op.Shape(ids, end=1), g.ints(self.vocab_size), axis=0)
        never = g.op.Expand(g.constant(NEVER, np.float32), every)
        return g.op.ScatterElements(never, ids, scores, axis=1)

    def shapes(self, read_tokens: int) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Of the tensors that it reads."""
        rank = 0
        if self.markov is not None:
            rank = self.markov.rank
            yield BEFORE, (read_tokens, rank)
            yield NEXT, (self.vocab_size, rank)
            if self.markov.is_gated:
                yield f"{GATE}.weight", (rank, self.width + rank)
        if self.selector is not None:
            for name in (PREDECESSORS, SUCCESSORS):
                yield name, (self.vocab_size, self.selector.rank)
            yield f"{PROJECTION}.weight", (self.selector.rank, self.width)
        if self.has_confidence:
            yield f"{CONFIDENCE}.weight", (1, self.width + rank * self.confidence_reads_token)


def _gated(
    g: Graph, state: ir.Value | None, before: ir.Value, number_format: NumberFormat
) -> ir.Value:
    """[m, rank], a table's rows with a gate of the hidden states and of themselves."""
    assert state is not None, "a gate reads states"
    both = g.op.Concat(state, before, axis=1)
    (gate,) = number_format.linear(g, both, Linear.named(GATE, bias=True))
    return g.op.Mul(g.op.Sigmoid(gate), before)
