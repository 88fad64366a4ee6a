"""Runs an exported model on ONNX Runtime: implements `edgespec.core.model.Model`."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypedDict, cast

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from edgespec.artifact import graph_io
from edgespec.artifact.graph_io import Buffer
from edgespec.artifact.manifest import Exported, Variant
from edgespec.core.model import Candidate, TopTokens
from edgespec.device.device import CPU, HERE, Device
from edgespec.device.kernels import kernels_for
from edgespec_runtimes.ort.cache_memory import memory_errors
from edgespec_runtimes.ort.cached_sequence import CachedSequence
from edgespec_runtimes.ort.decoder_graph import DecoderGraph
from edgespec_runtimes.ort.graph_run import GraphRun, LogitsRun
from edgespec_runtimes.ort.keeping.kept_sequence import (
    Array,
    KeptPrefixes,
    arrays_of_sequence,
    arrays_of_source,
)
from edgespec_runtimes.ort.ort_batch import OrtBatch
from edgespec_runtimes.ort.ort_decoder import OrtDecoder
from edgespec_runtimes.ort.ort_encoder import OrtEncoder
from edgespec_runtimes.ort.prefill import (
    CachedPosition,
    call_end,
    plan_prefill,
    reusable_length,
)
from edgespec_runtimes.ort.reading.feature_memory import feature_memory
from edgespec_runtimes.ort.recurrent_states import Step
from edgespec_runtimes.ort.session import call_errors
from edgespec_runtimes.ort.static_decoder import StaticDecoder

__all__ = ["ModelOptions", "OrtModel"]


class ModelOptions(TypedDict, total=False):
    """The keyword arguments of `OrtModel`, which explains them."""

    capacity: int | None
    device: Device
    min_rows: int
    max_rows: int | None
    candidates: bool


class OrtModel(CachedSequence):
    """An exported target or draft that computes one sequence at a time.

    Args:
        folder: of the manifest.
        exported: the model's entry there.
        variant: its name in `exported.variants`.
        capacity: positions that the cache holds; `exported.capacity` if None.
        device: for all graphs.
        min_rows: a call with fewer rows is padded with dummy tokens, which are forgotten again.
            A target takes the value of its row invariance; a draft may be called with one row.
        max_rows: rows per call up to which a position is computed identically, bit by bit; None if
            that is not known, as for drafts.
        candidates: score candidates if the graph and the kernels can. For a target, its row
            invariance must have been measured with candidates.

    Attributes:
        returns_top_tokens: greedy calls are faster without logits: the graph can leave them out,
            and a kernel makes use of it. See `edgespec.core.model.TopTokensModel`.
        features: float32 [capacity, F], what a target returns at each scored position for an EAGLE
            head; None if its graph returns none.
        encoder_states: float32 [source length, F], what a target's encoder returned of the latest
            source for a draft that reads it; None if its graph returns none.
        graph: the decoder's.
        prefixes: beginnings of texts that were kept, which prompts may begin with.
        shares_calls: several sequences can share calls of this model (`make_batch`).
    """

    def __init__(
        self,
        folder: Path,
        exported: Exported,
        variant: str,
        *,
        capacity: int | None = None,
        device: Device = HERE,
        min_rows: int = 1,
        max_rows: int | None = None,
        candidates: bool = False,
    ) -> None:
        super().__init__(exported, capacity)
        self._exported = exported
        self._variant = variant
        self._device = device
        self.seconds = 0.0
        self._call_errors = call_errors(device.provider)
        self._min_rows = min_rows
        self._max_rows = max_rows
        self._cross: dict[str, ort.OrtValue] = {}
        self._source: Sequence[int] = ()  # that they are of
        self.encoder_states: ort.OrtValue | None = None
        graphs = exported.variants[variant].graphs
        static = exported.variants[variant].static
        precision = static.precision if static else None
        self.graph = DecoderGraph(folder, graphs[graph_io.DECODER], device, precision)
        self._decoder = self._opened_decoder(folder, exported.variants[variant])
        self._encoder: OrtEncoder | None = None
        if graph_io.ENCODER in graphs:
            encoder = folder / graphs[graph_io.ENCODER]
            on_host = replace(device, provider=CPU)  # one with fixed shapes has no encoder's
            self._encoder = OrtEncoder(encoder, on_host if static else device)
        self._skips_all_logits = static is not None
        kernels = kernels_for(device)
        since = self.graph.metadata.get(graph_io.LAYOUTS_SINCE)
        layouts = kernels is not None and (since is None or kernels.are_since(since))
        optional = self.graph.optional_inputs
        self.returns_top_tokens = kernels is not None and graph_io.OUTPUT_MODE in optional
        self.scores_candidates = (
            candidates
            and layouts
            and graph_io.LAYOUTS in optional
            and not self.graph.recurrent_layers  # a state goes on with one token
        )
        self.shares_calls = (
            layouts
            and not exported.is_speech  # its source is a sound, not a prompt
            and _shares_calls(self.graph, self._encoder is not None)
        )
        file = graphs[graph_io.DECODER]
        self.features = feature_memory(exported, self.graph, file, self.capacity)
        width = 0 if self.features is None else exported.features
        self.prefixes = KeptPrefixes(self._decoder.cache, width, self._decoder.states)

    def _opened_decoder(self, folder: Path, variant: Variant) -> OrtDecoder:
        """The decoder with its cache."""
        with memory_errors(self.capacity):
            if variant.static is not None:
                return StaticDecoder(self.graph, folder, self._exported, variant, self._device)
            # Attention of a graph for a GPU reads whole buffers, whose size chooses kernels there:
            # it is the same whatever calls are padded to, as row invariance was measured.
            padded = self._min_rows
            if graph_io.KEY_POSITIONS in self.graph.inputs:
                padded = graph_io.MAX_ROWS
            positions = self.capacity + padded - 1 + graph_io.SPARE_POSITIONS
            return OrtDecoder(self.graph, self._exported, self._variant, positions)

    @property
    def cache(self) -> Mapping[Buffer, npt.NDArray[np.generic]]:
        """The cache's memory: [1, heads, positions, width] for each buffer."""
        return self._decoder.cache.arrays

    @property
    def copied_bytes(self) -> int:
        """What calls have copied between the host and a device with memory of its own, or graphs
        with fixed shapes; what an encoder reads is not counted."""
        return self._decoder.copied_bytes

    @property
    def calls(self) -> int:
        """How often graphs of the decoder were run."""
        return self._decoder.calls

    def make_batch(self, count: int, capacity: int) -> OrtBatch:
        """Sequences with caches of their own that share this model's weights and their calls.

        Args:
            count: sequences.
            capacity: positions of each.

        Raises:
            UsageError: there is no memory for their caches.
        """
        batch = OrtBatch(
            self.graph,
            self._encoder,
            self._exported,
            self._variant,
            count,
            capacity,
            self.scores_candidates,
        )
        batch.prefixes = self.prefixes
        return batch

    # --- prompts ---

    def prefill(self, prompt: Sequence[int], assistant_spans: Sequence[range] | None = None) -> int:
        """Starts a sequence and returns its pending token; see
        `edgespec.core.model.Model.prefill`."""
        self._check_prompt(prompt)
        start_token = self._exported.start_token
        if start_token is not None and not self._exported.is_speech:
            self.rewind(0)
            self._cross, self._source = self._encoded(prompt), prompt
            self.encoder_states = self._cross.pop(graph_io.FEATURES, None)
            return start_token
        known = prompt[:-1]
        plan = plan_prefill(
            len(known), assistant_spans or (), short_spans=self._max_rows is not None
        )
        keys = self._position_keys(known)
        wanted = [CachedPosition(*how) for how in zip(keys, plan, strict=True)]
        own = 0 if assistant_spans is None else reusable_length(self._cached, wanted)
        self.rewind(own)
        if assistant_spans is not None:
            self._restore(wanted)
        while self.length < len(known):
            end = call_end(self.length, plan, self._max_rows or 1)
            self._logits(known[self.length : end], prefill=True)
            self._cached += wanted[self.length : end]
        return prompt[-1]

    def _restore(self, wanted: Sequence[CachedPosition]) -> None:
        """Copies a beginning that was kept into the cache, where more of it is wanted than the
        cache has."""
        found = self.prefixes.best(wanted, self.length)
        if found is None:
            return
        kept, count = found
        self.rewind(0)
        (states,) = self._decoder.states or (None,)
        kept.copy_to(self._decoder.cache, self.features, states, 0, count)
        self._cached += wanted[:count]
        self._copied(count)

    def _copied(self, length: int) -> None:
        """Records that so many positions were not computed here; most models need not know."""

    def kept_arrays(self) -> dict[str, Array]:
        """What the cache holds of its sequence, or the encoder returned of its source, by the names
        of `keeping.kept_sequence`; nothing where the cache cannot be kept."""
        if self.graph.memory is not None:
            return {}
        if self._encoder is not None:
            values = {name: value.numpy() for name, value in self._cross.items()}
            if self.encoder_states is not None:
                values[graph_io.FEATURES] = self.encoder_states.numpy()
            return arrays_of_source(self._source, values)
        positions = self._cached[: self.valid_length]
        (states,) = self._decoder.states or (None,)
        return arrays_of_sequence(positions, self._decoder.cache, self.features, states)

    def _encoded(self, prompt: Sequence[int]) -> dict[str, ort.OrtValue]:
        """What the encoder returns of a source, which may have been kept. An EAGLE head has none:
        its target reads the source."""
        if self._encoder is None:
            return {}
        kept = self.prefixes.source(prompt)
        if kept is not None:
            return {n: ort.OrtValue.ortvalue_from_numpy(v.copy()) for n, v in kept.items()}
        inputs = self._encoder_inputs(prompt)
        with self._computing():
            return self._encoder.encode(inputs)

    def _encoder_inputs(self, prompt: Sequence[int]) -> Mapping[str, ort.OrtValue]:
        """What the encoder takes."""
        return {graph_io.TOKENS: ort.OrtValue.ortvalue_from_numpy(np.array(prompt, np.int64))}

    def cross_attention(self) -> dict[str, npt.NDArray[np.float32]]:
        """Keys and values of the source, by the names of `graph_io.cross_names`."""
        return {name: value.numpy() for name, value in self._cross.items()}

    def _position_keys(self, tokens: Sequence[int]) -> Sequence[Hashable]:
        """The `CachedPosition.key` of each position of a prompt."""
        return tokens

    # --- calls ---

    def score(
        self, tokens: Sequence[int], candidates: Sequence[Candidate] = ()
    ) -> npt.NDArray[np.float32]:
        """Appends `tokens`; returns the logits after each token, then after each candidate."""
        self._check_room(len(tokens) + len(candidates))
        logits = self._logits(tokens, candidates).logits
        self._append(tokens)
        return logits[: len(tokens) + len(candidates)]

    def top_tokens(
        self,
        tokens: Sequence[int],
        candidates: Sequence[Candidate] = (),
        *,
        skip: int = 0,
        probabilities: bool = False,
    ) -> TopTokens:
        """Appends `tokens`; see `edgespec.core.model.TopTokensModel.top_tokens`."""
        count = len(tokens) + len(candidates)
        self._check_room(count)
        rows = max(count, self._min_rows)
        call = self._decoder.top_tokens_call(rows, len(candidates), skip, probabilities)
        self._run(call, tokens, candidates)
        self._append(tokens)
        return call.first(count - skip)

    def candidate_room(self, count: int) -> int:
        """How many candidates a call with `count` tokens may have now."""
        if not self.scores_candidates or count < self._min_rows:
            return 0
        max_rows = min(self._max_rows or graph_io.MAX_ROWS, self.capacity - self.length)
        return max(0, max_rows - count)

    def _copy_position(self, source: int, destination: int) -> None:
        self._decoder.cache.copy_positions(source, destination, 1)
        if self.features is not None:
            self.features[destination] = self.features[source]

    def _logits(
        self, tokens: Sequence[int], candidates: Sequence[Candidate] = (), *, prefill: bool = False
    ) -> LogitsRun:
        rows = max(len(tokens) + len(candidates), self._min_rows)
        skip = 0
        if prefill:  # only the kernel, or graphs with fixed shapes, can leave out all logits
            skips_all = self.returns_top_tokens or self._skips_all_logits
            skip = rows if skips_all else rows - 1
        call = self._decoder.logits_call(rows, len(candidates), skip)
        self._run(call, tokens, candidates)
        return call

    def rewind(self, length: int) -> None:
        """Forgets every position from `length` on."""
        super().rewind(length)
        for states in self._decoder.states:
            states.rewind(length)

    def _state_steps(self, rows: int, count: int) -> list[Step]:
        """How a call takes the states of recurrent layers; empty without such.

        Where a rewind went further back than they are kept, positions are computed once more, by
        the calls that computed them before: they have the same bits.
        """
        if not self._decoder.states:
            return []
        (states,) = self._decoder.states
        step = states.step(self.length, rows, count)
        if step is not None:
            return [step]
        start = states.restart(self.length)
        again = self._cached[start:]
        del self._cached[start:]
        plan = [*(None for _ in self._cached), *(position.call for position in again)]
        while again:
            end = min(call_end(self.length, plan, self._max_rows or 1) - self.length, len(again))
            self._logits([cast(int, position.key) for position in again[:end]], prefill=True)
            self._cached += again[:end]
            again = again[end:]
        return self._state_steps(rows, count)

    def _run(self, call: GraphRun, tokens: Sequence[int], candidates: Sequence[Candidate]) -> None:
        steps = self._state_steps(len(call.tokens), len(tokens))
        call.set_tokens(tokens, candidates, self.length)
        call.set_cross_attention(self._cross)
        self._set_states(call, len(tokens))
        began = time.perf_counter()
        with self._call_errors:
            self._decoder.run(call, steps)
        self.seconds += time.perf_counter() - began
        self._store_states(call, len(tokens) + len(candidates))
        self._candidates = [
            (candidate.token, (start, position, index))
            for candidate, (start, position, index) in zip(
                candidates, call.layouts.tolist(), strict=True
            )
        ]

    def _set_states(self, call: GraphRun, count: int) -> None:
        """Sets the hidden states that the first `count` rows of a call take; most take none."""

    def _store_states(self, call: GraphRun, count: int) -> None:
        """Copies what later calls, or an EAGLE head, need of a call's first `count` rows."""
        if self.features is not None:
            states = call.states[graph_io.FEATURES]
            self.features[self.length : self.length + count] = states[:count]

    @contextmanager
    def _computing(self) -> Iterator[None]:
        """Adds the time of the block to `seconds`; its errors become `EdgespecError`."""
        began = time.perf_counter()
        with self._call_errors:
            yield
        self.seconds += time.perf_counter() - began


def _shares_calls(graph: DecoderGraph, has_source: bool) -> bool:
    """Whether rows of a graph may be of several sequences; one that takes hidden states cannot."""
    needed = {graph_io.LAYOUTS, graph_io.SOURCES} if has_source else {graph_io.LAYOUTS}
    return needed <= graph.optional_inputs
