"""Several sequences of one model that share its calls.

Their caches are parts of one buffer. Each row of a call says which part it belongs to
(`graph_io.LAYOUTS`), and has the bits that it would have alone: kernels compute a row from its own
numbers only.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from edgespec.artifact import graph_io
from edgespec.artifact.manifest import Exported
from edgespec.core.array_types import LogitRows
from edgespec.core.model import Candidate, TopTokens
from edgespec.core.requests import Read, Score, TopScore
from edgespec.core.vocab_ops import vocab_ops_for
from edgespec.scheduler.shared_calls import ROWS, SharedRequest
from edgespec_runtimes.ort.cache_memory import lazy_zeros, memory_errors
from edgespec_runtimes.ort.cached_sequence import Layout
from edgespec_runtimes.ort.decoder_graph import DecoderGraph
from edgespec_runtimes.ort.graph_run import GraphRun, LogitsRun, TopTokensRun
from edgespec_runtimes.ort.keeping.kept_sequence import (
    Array,
    KeptPrefixes,
    KeptSequence,
    arrays_of_sequence,
)
from edgespec_runtimes.ort.ort_decoder import OrtDecoder
from edgespec_runtimes.ort.ort_encoder import OrtEncoder
from edgespec_runtimes.ort.ort_sequence import OrtSequence
from edgespec_runtimes.ort.prefill import CachedPosition
from edgespec_runtimes.ort.recurrent_states import RecurrentStates, Step
from edgespec_runtimes.ort.session import as_edgespec_errors

__all__ = ["OrtBatch", "SharedRows"]

Answer = LogitRows | TopTokens | None


class OrtBatch:
    """The sequences of an exported model, a `SharedCache` (`ort_sequence`).

    Args:
        graph, encoder: of the model; the encoder is None for a decoder-only one.
        exported: the model's entry in the manifest.
        variant: its name in `exported.variants`.
        count: sequences.
        capacity: positions of each.
        candidates: score candidates; measured, as for `OrtModel`.

    Attributes:
        sequences: [count] the sequences, each a `SequenceModel`.
        seconds: of all calls so far.
        calls, rows: numbers of all calls and of their rows.
        start_token: of an encoder-decoder.
        features: float32 [positions, F], what a target returns at each index of its cache for an
            EAGLE head; None if its graph returns none.
        returns_top_tokens, scores_candidates: see `edgespec.core.model`.
        prefixes: beginnings of texts that were kept; the model's own.

    Raises:
        UsageError: there is no memory for their caches.
    """

    def __init__(
        self,
        graph: DecoderGraph,
        encoder: OrtEncoder | None,
        exported: Exported,
        variant: str,
        count: int,
        capacity: int,
        candidates: bool,
    ) -> None:
        self._encoder = encoder
        self.start_token = exported.start_token
        self.returns_top_tokens = graph_io.OUTPUT_MODE in graph.optional_inputs
        self.scores_candidates = candidates
        self.seconds = 0.0
        self.calls = self.rows = 0
        with memory_errors(count * capacity):
            positions = count * capacity + graph_io.SPARE_POSITIONS
            self._decoder = OrtDecoder(graph, exported, variant, positions, ROWS, count)
            self.features = _feature_memory(graph, positions)
            width = 0 if self.features is None else self.features.shape[1]
            self.prefixes = KeptPrefixes(self._decoder.cache, width, self._decoder.states[:1])
            self._cross = {
                name: lazy_zeros((1, heads, positions, size), np.float32)
                for name, heads, size in (encoder.cross_shapes() if encoder else ())
            }
        self._sources: dict[int, list[int]] = {}  # in the memory of cross-attention, by position
        self.sequences = [
            self._sequence(exported, number, number * capacity, capacity) for number in range(count)
        ]
        for sequence, states in zip(self.sequences, self._decoder.states, strict=False):
            sequence.states, states.start = states, sequence.start

    def _sequence(self, exported: Exported, number: int, start: int, capacity: int) -> OrtSequence:
        """Text `number`, whose part of the cache begins at index `start`."""
        return OrtSequence(self, exported, start, capacity)

    def encode(self, source: Sequence[int], start: int) -> int:
        """See `SharedCache.encode`."""
        tokens, end = list(source), start + len(source)
        began = time.perf_counter()
        same = next((other for other, known in self._sources.items() if known == tokens), None)
        if same is None:
            values = self._run_encoder(source)
            for name, memory in self._cross.items():
                memory[:, :, start:end] = values[name]
        else:
            for memory in self._cross.values():
                memory[:, :, start:end] = memory[:, :, same : same + len(source)]
        self._sources[start] = tokens
        self.seconds += time.perf_counter() - began
        return len(source)

    def _run_encoder(self, source: Sequence[int]) -> Mapping[str, Array]:
        """What the encoder returns of a source, which may have been kept."""
        assert self._encoder is not None
        kept = self.prefixes.source(source)
        if kept is not None:
            return kept
        tokens = ort.OrtValue.ortvalue_from_numpy(np.array(source, np.int64))
        with as_edgespec_errors():
            values = self._encoder.encode({graph_io.TOKENS: tokens})
        return {name: value.numpy() for name, value in values.items()}

    def copy_positions(self, source: int, destination: int, count: int) -> None:
        """See `SharedCache.copy_positions`."""
        self._decoder.cache.copy_positions(source, destination, count)
        if self.features is not None:
            copied = self.features[source : source + count].copy()  # they may overlap
            self.features[destination : destination + count] = copied

    def restore(
        self, kept: KeptSequence, states: RecurrentStates | None, start: int, count: int
    ) -> None:
        """See `SharedCache.restore`."""
        kept.copy_to(self._decoder.cache, self.features, states, start, count)

    def kept_arrays(
        self, positions: Sequence[CachedPosition], states: RecurrentStates | None, start: int
    ) -> dict[str, Array]:
        """See `SharedCache.kept_arrays`."""
        return arrays_of_sequence(positions, self._decoder.cache, self.features, states, start)

    def compute(self, requests: Sequence[SharedRequest]) -> list[Answer]:
        """Computes what sequences request, in as few calls as possible; at most one request of each
        sequence.

        Answers are valid until the next call.
        """
        answers: dict[int, Answer] = {}
        for mode, numbers in _by_mode(requests).items():
            joined = SharedRows()
            for number in numbers:
                joined.add(number, requests[number])
            self._run(mode, joined, answers)
        return [answers[number] for number in range(len(requests))]

    def _run(self, mode: int, joined: SharedRows, answers: dict[int, Answer]) -> None:
        rows, skip = joined.count, len(joined.skipped)
        call: LogitsRun | TopTokensRun
        if mode == LOGITS:
            # Only the kernel of a head can leave out all rows of logits.
            least = 0 if self.returns_top_tokens else 1
            call = self._decoder.logits_call(rows, rows, min(skip, rows - least))
        else:
            call = self._decoder.top_tokens_call(rows, rows, skip, mode == TOP_PROBABILITIES)
        ordered = joined.skipped + joined.kept
        tokens, layouts, sources = zip(*ordered, strict=True)
        call.set_rows(tokens, layouts, sources)
        if self._cross:
            call.bind_sources(self._cross)
        began = time.perf_counter()
        self._set_states(call, joined)
        with as_edgespec_errors():
            self._decoder.run(call, joined.state_steps())
        self._store_states(call, joined)
        seconds = time.perf_counter() - began
        self.seconds += seconds
        self.calls += 1
        self.rows += rows
        for part in joined.parts:
            part.sequence.computed(part.tokens, part.candidates, part.layouts)
            part.sequence.seconds += seconds * len(part.layouts) / rows
            answers[part.number] = _answer(call, part)

    def _set_states(self, call: GraphRun, rows: SharedRows) -> None:
        """Sets the hidden states that rows take; most models take none."""

    def _store_states(self, call: GraphRun, rows: SharedRows) -> None:
        """Keeps the hidden states that rows return, where others need them."""
        if self.features is not None:
            self.features[call.layouts[:, 2]] = call.states[graph_io.FEATURES]


# What a call returns of its rows.
LOGITS, ARG_MAX, TOP_PROBABILITIES = 0, 1, 2

Row = tuple[int, Layout, tuple[int, int]]  # token, layout, source


def _by_mode(requests: Sequence[SharedRequest]) -> dict[int, list[int]]:
    """Numbers of the requests of each call. Logits have the arg-max in them; a sequence that is
    only read takes any call."""
    modes: dict[int, list[int]] = {}
    read = []
    for number, request in enumerate(requests):
        if isinstance(request, Read):
            read.append(number)
        else:
            modes.setdefault(_mode(request), []).append(number)
    if LOGITS in modes and ARG_MAX in modes:
        modes[LOGITS] += modes.pop(ARG_MAX)
    if read:
        modes.setdefault(next(iter(modes), LOGITS), []).extend(read)
    return modes


def _mode(request: Score | TopScore) -> int:
    if isinstance(request, Score):
        return LOGITS
    return TOP_PROBABILITIES if request.probabilities else ARG_MAX


@dataclass(frozen=True)
class _Part:
    """The rows of one sequence in a call: `skip` without output, then `outputs`; `first_skipped`
    and `first` are their numbers among all rows of their kind."""

    number: int
    sequence: OrtSequence
    tokens: Sequence[int]
    candidates: Sequence[Candidate]
    layouts: Sequence[Layout]
    first_skipped: int
    skip: int
    first: int
    outputs: int
    request: SharedRequest


@dataclass
class SharedRows:
    """The rows of a call: those without output come first."""

    skipped: list[Row] = field(default_factory=list)
    kept: list[Row] = field(default_factory=list)
    parts: list[_Part] = field(default_factory=list)

    @property
    def count(self) -> int:
        return len(self.skipped) + len(self.kept)

    def add(self, number: int, request: SharedRequest) -> None:
        sequence = request.model
        assert isinstance(sequence, OrtSequence)
        candidates = () if isinstance(request, Read) else request.candidates
        layouts = sequence.layouts(request.tokens, candidates)
        tokens = [*sequence.unread, *request.tokens, *(candidate.token for candidate in candidates)]
        rows = [
            (token, layout, sequence.source) for token, layout in zip(tokens, layouts, strict=True)
        ]
        skip = len(rows)
        if not isinstance(request, Read):
            skip = len(sequence.unread) + (request.skip if isinstance(request, TopScore) else 0)
        outputs = len(rows) - skip
        part = _Part(
            number,
            sequence,
            request.tokens,
            candidates,
            layouts,
            len(self.skipped),
            skip,
            len(self.kept),
            outputs,
            request,
        )
        self.skipped += rows[:skip]
        self.kept += rows[skip:]
        self.parts.append(part)

    def state_steps(self) -> list[Step]:
        """What the call does with the states of recurrent layers; nothing without such."""
        return [
            step
            for part in self.parts
            for step in part.sequence.state_steps(len(part.layouts), isinstance(part.request, Read))
        ]

    def of_tokens(self, part: _Part) -> list[int]:
        """The numbers of the rows of a part's tokens, unread ones first; those of its candidates
        follow."""
        first = len(self.skipped) + part.first
        rows = [
            *range(part.first_skipped, part.first_skipped + part.skip),
            *range(first, first + part.outputs),
        ]
        return rows[: len(rows) - len(part.candidates)]


def _feature_memory(graph: DecoderGraph, positions: int) -> npt.NDArray[np.float32] | None:
    """Memory for what a target returns for an EAGLE head."""
    width = graph.state_widths.get(graph_io.FEATURES, 0)
    return lazy_zeros((positions, width), np.float32) if width else None


def _answer(call: LogitsRun | TopTokensRun, part: _Part) -> Answer:
    """What a call returned for one sequence."""
    if isinstance(part.request, Read):
        return None
    end = part.first + part.outputs
    if isinstance(call, TopTokensRun):
        return call.between(part.first, end)
    logits = call.logits[part.first : end]
    return logits if isinstance(part.request, Score) else _arg_max(logits)


def _arg_max(logits: npt.NDArray[np.float32]) -> TopTokens:
    """As the graph would return it."""
    largest = vocab_ops_for(logits).arg_max
    tokens = np.array([[largest(row)] for row in logits], np.int64)
    return TopTokens(tokens, np.take_along_axis(logits, tokens, axis=1), None)
