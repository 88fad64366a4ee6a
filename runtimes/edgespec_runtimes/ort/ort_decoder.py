"""A decoder graph with its cache.

The cache is numpy memory, or a device's, bound once as input and as output of the same session.
Calls write into it, and nothing copies it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar, cast

import numpy as np

from edgespec.artifact import graph_io
from edgespec.artifact.manifest import Exported
from edgespec_runtimes.ort.cache_memory import (
    CacheMemory,
    allocate_cache,
    lazy_zeros,
)
from edgespec_runtimes.ort.decoder_graph import DecoderGraph
from edgespec_runtimes.ort.graph_run import (
    BlockRun,
    GraphRun,
    LogitsRun,
    MaskedBlockRun,
    RunMemory,
    TopTokensRun,
)
from edgespec_runtimes.ort.providing.resident_cache import resident_cache
from edgespec_runtimes.ort.recurrent_states import RecurrentStates, StateMemory, Step
from edgespec_runtimes.ort.session import as_edgespec_errors

__all__ = ["OrtDecoder"]

Kept = TypeVar("Kept", bound=GraphRun)

MOST_CALLS = 256  # whose bindings are kept


class OrtDecoder:
    """A decoder graph, a cache for it and the bindings of its calls.

    Args:
        exported: the model's entry in the manifest.
        variant: its name in `exported.variants`.
        positions: that the cache holds, those for padding included.
        rows: of most calls, at most; longer ones compute prompts.
        sequences: that share the cache.

    Raises:
        OSError, OverflowError, ValueError: there is not enough memory.

    Attributes:
        cache: its memory.
        states: of each sequence's recurrent layers; empty if the graph has none.
        copied_bytes: between the host and a device with memory of its own, in all runs.
        calls: of the graph, so far.
    """

    def __init__(
        self,
        graph: DecoderGraph,
        exported: Exported,
        variant: str,
        positions: int,
        rows: int = graph_io.MAX_ROWS,
        sequences: int = 1,
    ) -> None:
        self._session = graph.session
        self._rows = rows
        self.cache = _allocated(exported, variant, positions)
        layers = graph.recurrent_layers
        memory = StateMemory(layers, sequences) if layers else None
        self.states = [RecurrentStates(memory, n) for n in range(sequences)] if memory else []
        self.copied_bytes = self.calls = 0
        told = graph_io.KEY_POSITIONS in graph.inputs
        self._memory = RunMemory(
            resident_cache(graph, self.cache, positions),
            graph.session,
            self.cache.arrays,
            graph.state_widths,
            lazy_zeros((rows, exported.vocab_size), np.float32),
            has_sources=graph_io.SOURCES in graph.optional_inputs,
            states=memory,
            key_positions=np.arange(positions, dtype=np.int32) if told else None,
            is_remote=graph.is_remote,
        )
        self._calls: dict[tuple[type[GraphRun], tuple[int, ...]], GraphRun] = {}

    def logits_call(self, rows: int, described: int, skip: int) -> LogitsRun:
        """The call with this many rows that returns logits; see `GraphRun`."""
        return self._call(LogitsRun, rows, described, skip)

    def block_call(self, rows: int, ahead: int) -> BlockRun:
        """The call of a block draft with this many rows; see `BlockRun`."""
        return self._call(BlockRun, rows, ahead)

    def masked_block_call(self, rows: int, drafted: int, state_width: int) -> MaskedBlockRun:
        """The call with this many rows of a draft that fills masks; see `MaskedBlockRun`."""
        return self._call(MaskedBlockRun, rows, drafted, state_width)

    def top_tokens_call(
        self, rows: int, described: int, skip: int, probabilities: bool
    ) -> TopTokensRun:
        """The call with this many rows that returns top tokens; see `GraphRun`."""
        return self._call(TopTokensRun, rows, described, skip, probabilities)

    def _call(self, kind: type[Kept], *key: int) -> Kept:
        call = self._calls.get((kind, key))
        if call is not None:
            return cast(Kept, call)
        with as_edgespec_errors():
            made = kind(self._memory, *key)
        if key[0] <= self._rows:  # longer ones compute prompts and seldom come again
            if len(self._calls) >= MOST_CALLS:
                del self._calls[next(iter(self._calls))]
            self._calls[kind, key] = made
        return made

    def run(self, call: GraphRun, steps: Sequence[Step] = ()) -> None:
        """Runs a call: fills its output and writes its positions into the cache.

        Args:
            steps: of recurrent layers' states, for each sequence of the call.
        """
        if steps:
            call.set_steps(steps)
        for step in steps:
            step.states.begin(step)
        if self._memory.is_remote:
            call.send()
            self.copied_bytes += call.copied_bytes
        self._session.run_with_iobinding(call.binding)
        self.calls += 1
        for step in steps:
            step.states.end(step)


def _allocated(exported: Exported, variant: str, positions: int) -> CacheMemory:
    cache_format = exported.variants[variant].cache_format
    buffers = graph_io.cache_buffers(exported.cache_shapes, cache_format)
    return allocate_cache(buffers, positions)
