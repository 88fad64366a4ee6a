"""A decoder whose graphs have fixed shapes: each call runs one, or several one after the other.

The cache is numpy memory that all graphs read. A graph returns the keys and values of its rows;
they are written into the cache in place, those of padding are not. Rows of tables, masks and rotary
angles are computed by a small graph on the processor, into memory that the decoder reads.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from edgespec.artifact import graph_io
from edgespec.artifact.manifest import Exported, Variant
from edgespec.artifact.static_calls import (
    PROMPT,
    SOURCE_LENGTH,
    StaticCalls,
    call_name,
    host_name,
)
from edgespec.core.model import Candidate
from edgespec.device.device import CPU, Device
from edgespec.errors import EdgespecError
from edgespec_runtimes.ort.cache_memory import allocate_cache, lazy_zeros
from edgespec_runtimes.ort.decoder_graph import DecoderGraph
from edgespec_runtimes.ort.graph_run import GraphRun, LogitsRun
from edgespec_runtimes.ort.ort_decoder import OrtDecoder
from edgespec_runtimes.ort.recurrent_states import Step
from edgespec_runtimes.ort.session import as_edgespec_errors, call_errors, open_session

__all__ = ["StaticDecoder", "StaticRun"]

Memory = dict[str, npt.NDArray[np.generic]]


class StaticRun(LogitsRun):
    """The inputs of a call of any number of rows, and its logits.

    Args:
        skip: leading rows without logits.
        features: numbers that the graphs show of each row; 0 of most.

    Attributes:
        tokens: int64 [rows], padding included.
        layouts: none: rows of these graphs stand in a line.
        states: what the graphs show of each row, float32 [rows, features].
        logits: float32 [rows - skip, vocab_size].
    """

    def __init__(
        self, rows: int, skip: int, logits: npt.NDArray[np.float32], features: int
    ) -> None:
        self.tokens = np.zeros(rows, np.int64)
        self.layouts = np.zeros((0, 3), np.int64)
        self.states = {}
        if features:
            self.states[graph_io.FEATURES] = np.zeros((rows, features), np.float32)
        self.logits = logits
        self.skip = skip
        self.count = self.past_length = 0
        self.cross: Mapping[str, ort.OrtValue] = {}

    def set_tokens(
        self, tokens: Sequence[int], candidates: Sequence[Candidate], past_length: int
    ) -> None:
        """Sets the rows of one sequence; those after the tokens are padding."""
        self.count, self.past_length = len(tokens), past_length
        self.tokens[: self.count] = tokens
        self.tokens[self.count :] = 0

    def set_cross_attention(self, cross: Mapping[str, ort.OrtValue]) -> None:
        """Sets a source's cross-attention keys and values."""
        self.cross = cross


class StaticDecoder(OrtDecoder):
    """The graphs of a variant with fixed shapes, and a cache for them.

    Args:
        graph: of the widest call.
        folder: of the manifest.

    Attributes:
        cache: its memory.
        states: none.
        copied_bytes: into graphs of calls and out of them, so far: rows of tables, masks and
            angles; logits, new keys and values. The cache and a source stay where they are.
        calls: of graphs, so far.
    """

    def __init__(
        self,
        graph: DecoderGraph,
        folder: Path,
        exported: Exported,
        variant: Variant,
        device: Device,
    ) -> None:
        assert variant.static is not None, "a variant with fixed shapes"
        self._static: StaticCalls = variant.static
        self._folder, self._graphs, self._device = folder, variant.graphs, device
        self._widest = graph.session
        self._vocab_size = exported.vocab_size
        self._features = graph.state_widths.get(graph_io.FEATURES, 0)
        buffers = graph_io.cache_buffers(exported.cache_shapes, variant.cache_format)
        self.cache = allocate_cache(buffers, self._static.capacity)
        self.states = []
        self.copied_bytes = self.calls = 0
        self._source = _source_memory(graph.session)
        self._source_length = np.zeros(1, np.int64)
        self._cross: Mapping[str, ort.OrtValue] = {}
        self._opened: dict[str, _Call] = {}

    def logits_call(self, rows: int, described: int, skip: int) -> StaticRun:
        """A call with this many rows, none of them described by a layout."""
        logits = np.empty((rows - skip, self._vocab_size), np.float32)
        return StaticRun(rows, skip, logits, self._features)

    def run(self, call: GraphRun, steps: Sequence[Step] = ()) -> None:
        """Runs a call: fills its logits and writes its positions into the cache.

        Raises:
            EdgespecError: a logit is no finite number.
        """
        assert isinstance(call, StaticRun), "a call of these graphs"
        self._set_source(call.cross)
        count = call.count
        prompt_rows = self._static.prompt_rows
        is_long = prompt_rows is not None and count > self._static.widest and call.skip > 0
        at = 0
        while at < count:
            if is_long:  # a prompt: its pieces depend on nothing but its length
                name, rows = PROMPT, prompt_rows or 0
            else:
                rows = self._static.fitting(count - at)
                name = call_name(rows)
            end = min(at + rows, count)
            results = self._opened_call(name, rows).run(call.tokens[at:end], call.past_length + at)
            self.calls += 1
            for shown, states in call.states.items():
                states[at:end] = results[shown][: end - at]
            first = max(at, call.skip)
            if not is_long and first < end:
                rows_of = results[graph_io.LOGITS][first - at : end - at]
                call.logits[first - call.skip : end - call.skip] = rows_of
            at = end
        self.copied_bytes = sum(opened.copied_bytes for opened in self._opened.values())
        if not is_long and not np.isfinite(call.logits[: count - call.skip]).all():
            raise EdgespecError(
                f"the model's logits are not finite numbers in {self._static.precision} on "
                f"{self._device.provider}; take a format with a wider range"
            )

    def _opened_call(self, name: str, rows: int) -> _Call:
        """A graph, opened when it is first needed."""
        if name not in self._opened:
            session = self._widest
            if name != call_name(self._static.widest):
                path = self._folder / self._graphs[name]
                session = open_session(path, self._device, self._static.precision)
            on_host = dataclasses.replace(self._device, provider=CPU)
            host = open_session(self._folder / self._graphs[host_name(name)], on_host)
            fixed = {SOURCE_LENGTH: self._source_length, **self._source}
            fixed |= {buffer.past: array for buffer, array in self.cache.arrays.items()}
            new = {buffer.present: array for buffer, array in self.cache.arrays.items()}
            self._opened[name] = _Call(
                session, host, rows, fixed, new, call_errors(self._device.provider)
            )
        return self._opened[name]

    def _set_source(self, cross: Mapping[str, ort.OrtValue]) -> None:
        """Copies what the encoder returned of a source, unless it is there already."""
        if cross is self._cross:
            return
        for name, value in cross.items():
            rows = value.numpy()
            count = rows.shape[2]
            if count > self._source[name].shape[2]:
                raise EdgespecError(
                    f"the source has {count} tokens and the graphs were exported for "
                    f"{self._static.source}; export the pair with more (--capacity)"
                )
            self._source[name][:, :, :count] = rows
            self._source_length[0] = count
        self._cross = cross


class _Call:
    """One graph of a call with the host's graph, and the memory they are bound to.

    Args:
        fixed: memory that the graphs read, by the names of their inputs: the cache, the source.
        cache: a buffer for each output with new keys or values, [1, heads, capacity, width].
        errors: of calls.
    """

    def __init__(
        self,
        session: ort.InferenceSession,
        host: ort.InferenceSession,
        rows: int,
        fixed: Mapping[str, npt.NDArray[np.generic]],
        cache: Mapping[str, npt.NDArray[np.generic]],
        errors: as_edgespec_errors,
    ) -> None:
        self._session, self._host, self._errors = session, host, errors
        self._tokens, self._past_length = np.zeros(rows, np.int64), np.zeros(1, np.int64)
        from_host = _memory_of(host.get_outputs())
        self._results = _memory_of(session.get_outputs())
        self._cache = cache
        given: Memory = {graph_io.TOKENS: self._tokens, graph_io.PAST_LENGTH: self._past_length}
        given.update(fixed)
        given.update(from_host)
        self._given = given  # the bindings do not keep it
        self._of_host = _bound(host, given, from_host)
        self._of_call = _bound(session, given, self._results)
        copied = [*from_host.values(), *self._results.values()]
        self._bytes = sum(array.nbytes for array in copied)
        self.copied_bytes = 0

    def run(self, tokens: npt.NDArray[np.int64], past_length: int) -> Memory:
        """Computes these tokens and writes their positions into the cache.

        Returns:
            What the graph returns, by name, valid until the next call.
        """
        count = len(tokens)
        self._tokens[:count], self._tokens[count:] = tokens, 0
        self._past_length[0] = past_length
        with self._errors:
            self._host.run_with_iobinding(self._of_host)
            self._session.run_with_iobinding(self._of_call)
        for name, buffer in self._cache.items():
            buffer[:, :, past_length : past_length + count] = self._results[name][:, :, :count]
        self.copied_bytes += self._bytes
        return self._results


def _bound(
    session: ort.InferenceSession,
    given: Mapping[str, npt.NDArray[np.generic]],
    results: Mapping[str, npt.NDArray[np.generic]],
) -> ort.IOBinding:
    """What a session runs with: its inputs among those given, and all of its outputs."""
    binding = session.io_binding()
    for value in session.get_inputs():
        array = given[value.name]
        if list(array.shape) != value.shape:
            raise EdgespecError(
                f"the graph takes {value.name} of shape {value.shape}, and it has "
                f"{list(array.shape)}; export the pair again"
            )
        binding.bind_input(value.name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
    for name, array in results.items():
        binding.bind_output(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
    return binding


def _memory_of(values: Sequence[ort.NodeArg]) -> Memory:
    """Memory for inputs or outputs with fixed shapes."""
    return {value.name: np.zeros(value.shape, TYPES[value.type]) for value in values}


TYPES: dict[str, type[np.generic]] = {
    "tensor(float)": np.float32,
    "tensor(bool)": np.bool_,
    "tensor(int32)": np.int32,
    "tensor(int64)": np.int64,
}


def _source_memory(session: ort.InferenceSession) -> Memory:
    """Memory for the cross-attention of a source, by the names of its inputs."""
    return {
        value.name: lazy_zeros(tuple(value.shape), np.float32)
        for value in session.get_inputs()
        if value.name.startswith(("cross_key.", "cross_value."))
    }
