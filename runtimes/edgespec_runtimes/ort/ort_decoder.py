"""A decoder graph with its cache.

The cache is numpy memory, bound once as input and as output of the same session. Calls write into
it, and nothing copies it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime as ort

from edgespec.artifact import graph_io
from edgespec.artifact.manifest import Exported
from edgespec.core.device import CPU, Device
from edgespec.errors import EdgespecError
from edgespec_runtimes.ort.cache_memory import CacheMemory, allocate_cache, memory_errors
from edgespec_runtimes.ort.ort_call import BlockCall, Call, CallMemory, LogitsCall, TopTokensCall
from edgespec_runtimes.ort.session import as_edgespec_errors, count_operators, open_session

__all__ = ["OrtDecoder"]

STATES = (graph_io.FEATURES, graph_io.FUSED_STATES, graph_io.HIDDEN, graph_io.CONFIDENCE)


class OrtDecoder:
    """A decoder graph, its cache and the bindings of its calls.

    Args:
        folder: of the manifest.
        exported: the model's entry there.
        variant: its name in `exported.variants`.
        capacity: positions that the cache holds.
        padding: rows that a call may write after them.

    Attributes:
        cache: its memory.
        operators: how many of the graph's operators the device's provider runs, and how many there
            are; None on the processor, which runs all operators that other providers do not.
        optional_inputs: names of inputs that may be left out.
        state_widths: widths of the hidden states that the graph takes or returns, by their names in
            `graph_io`.
        metadata: what the graph's file says about it.
    """

    def __init__(
        self,
        folder: Path,
        exported: Exported,
        variant: str,
        device: Device,
        capacity: int,
        padding: int,
    ) -> None:
        graph = exported.variants[variant].graphs[graph_io.DECODER]
        self._session = open_session(folder / graph, device)
        self.operators = _operators_taken(self._session, graph, device)
        self.optional_inputs = {
            value.name for value in self._session.get_overridable_initializers()
        }
        self.metadata: dict[str, str] = self._session.get_modelmeta().custom_metadata_map
        values = [*self._session.get_inputs(), *self._session.get_outputs()]
        self.state_widths: dict[str, int] = {
            value.name: value.shape[1] for value in values if value.name in STATES
        }
        self.cache = _allocated(exported, variant, capacity, padding)
        logits = np.empty((graph_io.MAX_ROWS, exported.vocab_size), np.float32)
        self._memory = CallMemory(self._session, self.cache.arrays, self.state_widths, logits)
        self._logits_calls: dict[tuple[int, int, int], LogitsCall] = {}
        self._block_calls: dict[tuple[int, int], BlockCall] = {}
        self._top_tokens_calls: dict[tuple[int, int, int, bool], TopTokensCall] = {}

    def logits_call(self, rows: int, candidates: int, skip: int) -> LogitsCall:
        """The call with this many rows that returns logits; see `Call`."""
        key = rows, candidates, skip
        call = self._logits_calls.get(key)
        if call is None:
            with as_edgespec_errors():
                call = LogitsCall(self._memory, *key)
            if rows <= graph_io.MAX_ROWS:  # longer ones compute prompts and seldom come again
                self._logits_calls[key] = call
        return call

    def block_call(self, rows: int, ahead: int) -> BlockCall:
        """The call of a block draft with this many rows; see `BlockCall`."""
        key = rows, ahead
        call = self._block_calls.get(key)
        if call is None:
            with as_edgespec_errors():
                call = BlockCall(self._memory, *key)
            if rows <= graph_io.MAX_ROWS:
                self._block_calls[key] = call
        return call

    def top_tokens_call(
        self, rows: int, candidates: int, skip: int, probabilities: bool
    ) -> TopTokensCall:
        """The call with this many rows that returns top tokens; see `Call`."""
        key = rows, candidates, skip, probabilities
        call = self._top_tokens_calls.get(key)
        if call is None:
            with as_edgespec_errors():
                call = TopTokensCall(self._memory, *key)
            if rows <= graph_io.MAX_ROWS:
                self._top_tokens_calls[key] = call
        return call

    def run(self, call: Call) -> None:
        """Runs a call: fills its output and writes its positions into the cache."""
        self._session.run_with_iobinding(call.binding)


def _operators_taken(
    session: ort.InferenceSession, graph: str, device: Device
) -> tuple[int, int] | None:
    """See `OrtDecoder.operators`.

    Raises:
        EdgespecError: the provider runs none of them.
    """
    if device.provider == CPU:
        return None
    taken, count = count_operators(session, device)
    if not taken:
        raise EdgespecError(
            f"{device.provider} runs none of the {count} operators of {graph}; take another "
            "provider (cpu)"
        )
    return taken, count


def _allocated(exported: Exported, variant: str, capacity: int, padding: int) -> CacheMemory:
    cache_format = exported.variants[variant].cache_format
    buffers = graph_io.cache_buffers(exported.layers, exported.head_size, cache_format)
    with memory_errors(capacity):
        positions = capacity + padding + graph_io.SPARE_POSITIONS
        return allocate_cache(buffers, (1, exported.kv_heads, positions))
