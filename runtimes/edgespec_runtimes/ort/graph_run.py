"""The bindings of a decoder call: ONNX Runtime reads and writes numpy memory, without copies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from edgespec.artifact import graph_io
from edgespec.artifact.graph_io import Buffer
from edgespec.core.model import Candidate, TopTokens
from edgespec_runtimes.ort.recurrent_states import StateMemory, Step

__all__ = ["BlockRun", "GraphRun", "LogitsRun", "MaskedBlockRun", "RunMemory", "TopTokensRun"]

DUMMY_TOKEN = 0


@dataclass(frozen=True)
class RunMemory:
    """What all calls of one decoder share.

    Attributes:
        resident: the cache in the device's memory; None where it is the host's, in `cache`.
        session: the decoder's.
        cache: an array for each buffer, [1, heads, positions, width].
        state_widths: widths of the graph's hidden-state inputs and outputs, by their names.
        logits: float32 [most rows, vocab_size], the output of all calls with that few rows. What a
            call returns is therefore valid until the next call.
        has_sources: rows may see parts of a source.
        states: of recurrent layers; None without such.
        key_positions: int32 [positions], of a graph that is told positions; None of others.
        is_remote: the device has copies of what the graph reads in the host's memory.
    """

    resident: Mapping[Buffer, ort.OrtValue] | None
    session: ort.InferenceSession  # after its memory, which it must outlive
    cache: Mapping[Buffer, npt.NDArray[np.generic]]
    state_widths: Mapping[str, int]
    logits: npt.NDArray[np.float32]
    has_sources: bool
    states: StateMemory | None = None
    key_positions: npt.NDArray[np.int32] | None = None
    is_remote: bool = False


class GraphRun:
    """Buffers of decoder calls with a given number of rows, bound once. Subclasses bind the output.

    Args:
        rows: positions of a call, padding included.
        described: how many of the last rows have a layout: candidates, or all rows of a call for
            several sequences.
        skip: leading rows without output.

    Attributes:
        tokens: int64 [rows].
        layouts: int64 [described, 3], see `graph_io.LAYOUTS`.
        sources: int64 [described, 2], see `graph_io.SOURCES`; empty where all rows see the whole
            source.
        states: the hidden states by their names in the graph, float32 [rows, width] each.
        binding: what the session runs.
    """

    def __init__(self, memory: RunMemory, rows: int, described: int, skip: int) -> None:
        self.tokens = np.zeros(rows, np.int64)
        self.layouts = np.zeros((described, 3), np.int64)
        self._of_sequences = described == rows
        has_sources = memory.has_sources and self._of_sequences
        self.sources = np.zeros((described if has_sources else 0, 2), np.int64)
        self.states = {
            name: np.zeros((rows, width), np.float32) for name, width in memory.state_widths.items()
        }
        self.binding = memory.session.io_binding()
        self._read: dict[str, npt.NDArray[np.generic]] = {}
        self._returned: dict[str, npt.NDArray[np.generic]] = {}
        self._past_length = np.zeros(1, np.int64)
        self._row_positions = np.zeros(rows, np.int32)
        self._skip = np.array([skip], np.int64)
        self._cross: Mapping[str, ort.OrtValue] = {}
        self._has_sources = False
        self.bind_input(graph_io.TOKENS, self.tokens)
        self.bind_input(graph_io.SKIP, self._skip)
        if memory.key_positions is None:
            self.bind_input(graph_io.PAST_LENGTH, self._past_length)
        else:
            self.bind_input(graph_io.ROW_POSITIONS, self._row_positions)
            self._bind(graph_io.KEY_POSITIONS, memory.key_positions)  # the same in all calls
        if described:
            self.bind_input(graph_io.LAYOUTS, self.layouts)
        if len(self.sources):
            self.bind_input(graph_io.SOURCES, self.sources)
        self._bind_cache(memory)
        if memory.states is not None:
            self._bind_states(memory.states)
        for name, array in self.states.items():
            bind = self.bind_input if name == graph_io.FUSED_STATES else self._bind_output
            bind(name, array)
        self._session = memory.session  # after the binding, whose memory it must outlive

    def set_tokens(
        self, tokens: Sequence[int], candidates: Sequence[Candidate], past_length: int
    ) -> None:
        """Sets the inputs for one sequence; without candidates, rows after the tokens are
        padding."""
        count = len(tokens)
        self.tokens[:count] = tokens
        self.tokens[count:] = DUMMY_TOKEN
        self._past_length[0] = past_length
        self._row_positions[:] = np.arange(past_length, past_length + len(self.tokens))
        for number, (parent, token) in enumerate(candidates):
            row = count + number
            self.tokens[row] = token
            self.layouts[number] = 0, past_length + parent + 1, past_length + row

    def set_rows(
        self, tokens: npt.ArrayLike, layouts: npt.ArrayLike, sources: npt.ArrayLike
    ) -> None:
        """Sets the inputs for several sequences; every row has a layout."""
        self.tokens[:] = tokens
        self.layouts[:] = layouts
        if len(self.sources):
            self.sources[:] = sources
        most = int(self.layouts[:, 1].max()) + 1  # positions of the longest sequence
        self._past_length[0] = max(0, most - len(self.tokens))

    @property
    def copied_bytes(self) -> int:
        """What a run copies between the host and a device with memory of its own."""
        arrays = [*self._read.values(), *self._returned.values()]
        return sum(array.nbytes for array in arrays)

    def send(self) -> None:
        """Copies what the graph reads in the host's memory to a device with its own: a runtime
        copies it when it is bound."""
        for name, array in self._read.items():
            self._bind(name, array)

    def _bind_cache(self, memory: RunMemory) -> None:
        """Binds each buffer as input and as output: a call writes where it reads."""
        for buffer, array in memory.cache.items():
            if memory.resident is None:
                self.bind_input(buffer.past, array)
                self._bind_output(buffer.present, array)
            else:
                value = memory.resident[buffer]
                self.binding.bind_ortvalue_input(buffer.past, value)
                self.binding.bind_ortvalue_output(buffer.present, value)

    def _bind_states(self, memory: StateMemory) -> None:
        """Binds what recurrent layers keep; one sequence's states at each run (`set_steps`)."""
        for number, (states, rows) in enumerate(zip(memory.states, memory.rows, strict=True)):
            kept = [(graph_io.recent_rows_names(number), rows)]
            if self._of_sequences:
                kept.append((graph_io.state_names(number), states))
            for (past, present), array in kept:
                self.bind_input(past, array)
                self._bind_output(present, array)

    def set_steps(self, steps: Sequence[Step]) -> None:
        """Sets which states the call takes, and which it makes."""
        self._state_steps = np.array([step.numbers for step in steps], np.int64)
        self.bind_input(graph_io.STATE_STEPS, self._state_steps)
        if self._of_sequences:
            return
        (step,) = steps
        self._state_steps[0, :4] = 0  # the slots are bound themselves
        slots = zip(step.states.bound(step.source), step.states.bound(step.target), strict=True)
        for number, (taken, made) in enumerate(slots):
            past, present = graph_io.state_names(number)
            self.bind_input(past, taken)
            self._bind_output(present, made)

    def set_cross_attention(self, cross: Mapping[str, ort.OrtValue]) -> None:
        """Binds a source's cross-attention keys and values, unless they are bound already."""
        if cross is not self._cross:
            for name, value in cross.items():
                self.binding.bind_ortvalue_input(name, value)
            self._cross = cross

    def bind_sources(self, cross: Mapping[str, npt.NDArray[np.float32]]) -> None:
        """Binds memory that holds the cross-attention of several sources, once."""
        if not self._has_sources:
            for name, array in cross.items():
                self.bind_input(name, array)
            self._has_sources = True

    def bind_input(self, name: str, array: npt.NDArray[np.generic]) -> None:
        """Binds memory that the graph reads at each run."""
        self._read[name] = array
        self._bind(name, array)

    def _bind(self, name: str, array: npt.NDArray[np.generic]) -> None:
        self.binding.bind_input(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)

    def _bind_output(self, name: str, array: npt.NDArray[np.generic]) -> None:
        self._returned[name] = array
        self.binding.bind_output(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)


class LogitsRun(GraphRun):
    """A call that returns logits.

    Attributes:
        logits: float32 [rows - skip, vocab_size].
    """

    def __init__(self, memory: RunMemory, rows: int, described: int, skip: int) -> None:
        super().__init__(memory, rows, described, skip)
        count, (max_rows, vocab_size) = rows - skip, memory.logits.shape
        self.logits = (
            memory.logits[:count]
            if count <= max_rows
            else np.empty((count, vocab_size), np.float32)
        )
        self._bind_output(graph_io.LOGITS, self.logits)


class BlockRun(LogitsRun):
    """A call of a block draft that returns all logits; the last `ahead` rows are its rows ahead."""

    def __init__(self, memory: RunMemory, rows: int, ahead: int) -> None:
        super().__init__(memory, rows, described=0, skip=0)
        self._ahead = np.array([ahead], np.int64)
        self.bind_input(graph_io.AHEAD, self._ahead)


class MaskedBlockRun(GraphRun):
    """A call of a draft that fills a block of masks, which has the last rows.

    Attributes:
        logits: float32 [drafted, vocab_size].
        slot_states: float32 [drafted, state_width], what transitions read; no columns if they read
            none.
    """

    def __init__(self, memory: RunMemory, rows: int, drafted: int, state_width: int) -> None:
        super().__init__(memory, rows, described=0, skip=0)
        self.logits = memory.logits[:drafted]
        self.slot_states = np.zeros((drafted, state_width), np.float32)
        self._bind_output(graph_io.LOGITS, self.logits)
        if state_width:
            self._bind_output(graph_io.SLOT_STATES, self.slot_states)

    def set_block(self, block: Sequence[int], known: int, past_length: int) -> None:
        """Sets the tokens of the block, after `known` rows of the text."""
        self.set_tokens([*[DUMMY_TOKEN] * known, *block], (), past_length)


class TopTokensRun(GraphRun):
    """A call that returns each row's best token, or its `TOP_K` best with their probabilities."""

    def __init__(
        self, memory: RunMemory, rows: int, described: int, skip: int, probabilities: bool
    ) -> None:
        super().__init__(memory, rows, described, skip)
        shape = rows - skip, graph_io.TOP_K if probabilities else 1
        self._output_mode = np.array([2 if probabilities else 1], np.int64)
        self._tokens = np.empty(shape, np.int64)
        self._logits = np.empty(shape, np.float32)
        self._probabilities = np.empty(shape, np.float32) if probabilities else None
        self.bind_input(graph_io.OUTPUT_MODE, self._output_mode)
        self._bind_output(graph_io.TOP_TOKENS, self._tokens)
        self._bind_output(graph_io.TOP_LOGITS, self._logits)
        if self._probabilities is not None:
            self._bind_output(graph_io.TOP_PROBABILITIES, self._probabilities)

    def first(self, count: int) -> TopTokens:
        """The output of the first `count` rows; later ones are padding."""
        return self.between(0, count)

    def between(self, first: int, end: int) -> TopTokens:
        """The output of rows first … end - 1 of those that have any."""
        probabilities = None if self._probabilities is None else self._probabilities[first:end]
        return TopTokens(self._tokens[first:end], self._logits[first:end], probabilities)
