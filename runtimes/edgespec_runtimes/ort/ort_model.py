"""Runs an exported model on ONNX Runtime: `edgespec.core.model.Model` over its graphs.

The cache is numpy memory, bound once as input and as output of the same session. Calls write into
it; nothing copies it. Rewinding forgets which tokens are there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from edgespec.artifact import graph_io, manifest
from edgespec.core.device import CPU, HERE, Device
from edgespec.core.kernels import kernels_for
from edgespec.core.model import Candidate, TopTokens
from edgespec.errors import EdgespecError, UsageError
from edgespec_runtimes.ort.cache_memory import cache_memory, lazy_zeros
from edgespec_runtimes.ort.prefill import Cached, call_end, kept, making
from edgespec_runtimes.ort.session import as_edgespec_errors, open_session, operators_taken

__all__ = ["Call", "OrtModel"]

DUMMY_TOKEN = 0

SomeCall = TypeVar("SomeCall", bound="Call")


class OrtModel:
    """An exported target or draft, one text at a time.

    Args:
        folder: of the manifest.
        exported: the model's entry there.
        variant: which number format.
        capacity: positions the cache holds; the exporter's choice if None.
        device: for both graphs.
        min_rows: a call of fewer positions is padded with dummy tokens that are forgotten again.
            A target takes what its row-invariance asks for; a draft may be called with one row.
        max_rows: a position is computed alike, bit by bit, in calls of up to so many; None if
            that is not known, as of drafts.
        candidates: score them where the graph and its kernels can; a target is to have been found
            exact with them.

    Attributes:
        chooses: greedy calls are faster without the logits: the graph can leave them out, and there
            is a kernel that does. See `edgespec.core.model.TopTokensModel`.
        features: [capacity, F] what a target shows of each position that it has scored, for a draft
            that reads it; None where its graph shows nothing.
        operators: how many of the decoder's operators the device's provider runs, and of how many;
            None on the processor, which runs what others do not take.
    """

    def __init__(
        self,
        folder: Path,
        exported: manifest.Exported,
        variant: str,
        *,
        capacity: int | None = None,
        device: Device = HERE,
        min_rows: int = 1,
        max_rows: int | None = None,
        candidates: bool = False,
    ) -> None:
        self.vocab_size = exported.vocab_size
        self.capacity = exported.capacity if capacity is None else capacity
        self._positions = exported.positions
        if not 1 <= self.capacity <= (exported.positions or self.capacity):
            limit = f"1 to {exported.positions}" if exported.positions else "1 or more"
            raise UsageError(f"capacity is {self.capacity}; {exported.source} takes {limit}")
        self.seconds = 0.0
        self._cached: list[Cached] = []
        self._min_rows = min_rows
        self._max_rows = max_rows
        self._start_token = exported.start_token
        self._layers = exported.layers
        graphs = exported.variants[variant].graphs
        buffers = graph_io.cache_buffers(
            exported.layers, exported.head_size, exported.variants[variant].cache_format
        )
        self._decoder = open_session(folder / graphs[graph_io.DECODER], device)
        self.operators = _taken(self._decoder, graphs[graph_io.DECODER], device)
        encoder = graphs.get(graph_io.ENCODER)
        self._encoder = open_session(folder / encoder, device) if encoder else None
        self._further = _further(self._decoder)
        kernels = kernels_for(device) is not None
        optional = {value.name for value in self._decoder.get_overridable_initializers()}
        self.returns_top_tokens = (
            kernels
            and graph_io.OUTPUT_MODE in optional
            and _returns_several_top_tokens(self._decoder)
        )
        self.scores_candidates = candidates and kernels and graph_io.PARENTS in optional
        reads = exported.is_eagle_head
        shown = self._further.get(graph_io.FEATURES, 0)
        if not reads and shown != exported.features:
            raise EdgespecError(
                f"{graphs[graph_io.DECODER]} shows {shown} numbers of each position and the "
                f"manifest says {exported.features}; export the pair again"
            )
        self.features: npt.NDArray[np.float32] | None = None
        padding = min_rows - 1
        shape = (1, exported.kv_heads, self.capacity + padding)
        try:
            self._blocks, self._cache = cache_memory(buffers, shape)
            if exported.features and not reads:
                self.features = lazy_zeros((self.capacity, exported.features), np.float32)
        except (OSError, OverflowError, ValueError):  # more than there is or can be addressed
            raise UsageError(
                f"there is no memory for a cache of {self.capacity} positions; give less capacity"
            ) from None
        # Of all calls of few positions: what one has returned is valid until the next.
        self._logits_room = np.empty((graph_io.MAX_ROWS, self.vocab_size), np.float32)
        self._cross: dict[str, ort.OrtValue] = {}
        self._calls: dict[tuple[object, ...], Call] = {}
        # The latest call, if it had candidates, and its first position.
        self._branched: tuple[Call, int] | None = None

    @property
    def length(self) -> int:
        return len(self._cached)

    @property
    def valid_length(self) -> int:
        return self.length

    def prefill(self, prompt: Sequence[int], answers: Sequence[range] | None = None) -> int:
        if not prompt:
            raise UsageError("the prompt is empty; give at least one token")
        if len(prompt) > self.capacity:
            raise UsageError(
                f"the prompt has {len(prompt)} tokens and the cache holds {self.capacity}; "
                f"shorten the prompt{self._more_room()}"
            )
        self._check_tokens(prompt)
        if self._encoder is not None and self._start_token is not None:
            self.rewind(0)
            self._encode(prompt)
            return self._start_token
        known = prompt[:-1]
        made = making(len(known), answers or (), steps=self._max_rows is not None)
        anew = list(zip(self._read_as(known), made, strict=True))
        self.rewind(0 if answers is None else kept(self._cached, anew))
        while self.length < len(known):
            end = call_end(self.length, made, self._max_rows or 1)
            self._logits(known[self.length : end], prefill=True)
            self._cached += anew[self.length : end]
        return prompt[-1]

    def _read_as(self, tokens: Sequence[int]) -> Sequence[Hashable]:
        """All that what is cached of a prompt's positions depends on."""
        return tokens

    def score(
        self, tokens: Sequence[int], candidates: Sequence[Candidate] = ()
    ) -> npt.NDArray[np.float32]:
        self._check_room(len(tokens) + len(candidates))
        logits = self._logits(tokens, candidates).logits
        self._cached += [(token, None) for token in tokens]
        return logits[: len(tokens) + len(candidates)]

    def top_tokens(
        self,
        tokens: Sequence[int],
        candidates: Sequence[Candidate] = (),
        *,
        skip: int = 0,
        probabilities: bool = False,
    ) -> TopTokens:
        count = len(tokens) + len(candidates)
        self._check_room(count)
        call = self._call(
            TopTokensCall, max(count, self._min_rows), len(candidates), skip, probabilities
        )
        self._run(call, tokens, candidates)
        self._cached += [(token, None) for token in tokens]
        return call.first(count - skip)

    def candidate_room(self, count: int) -> int:
        if not self.scores_candidates or count < self._min_rows:
            return 0
        most = min(self._max_rows or graph_io.MAX_ROWS, self.capacity - self.length)
        return max(0, most - count)

    def commit_candidate(self, candidate: int) -> None:
        call, start = self._branched or (None, 0)
        if call is None or not 0 <= candidate < len(call.parents):
            raise EdgespecError(f"the latest call had no candidate {candidate} to take")
        if self.length != start + call.parents[candidate] + 1:
            raise EdgespecError(
                f"candidate {candidate} does not stand behind {self.length} positions"
            )
        row = len(call.tokens) - len(call.parents) + candidate
        for block in self._blocks:
            block[:, :, :, self.length] = block[:, :, :, start + row]
        if self.features is not None:
            self.features[self.length] = call.rows[graph_io.FEATURES][row]
        self._cached.append((int(call.tokens[row]), None))

    def rewind(self, length: int) -> None:
        if not 0 <= length <= self.length:
            raise EdgespecError(f"cannot rewind to {length} from {self.length} positions")
        del self._cached[length:]

    def _check_room(self, count: int) -> None:
        room = self.capacity - self.length
        if not 0 < count <= room:
            raise EdgespecError(
                f"asked to score {count} positions with room for {room} of {self.capacity}"
                f"{self._more_room()}"
            )

    def _more_room(self) -> str:
        """What a message may advise where a larger cache is possible."""
        if self.capacity == self._positions:
            return ""
        most = f", at most {self._positions}" if self._positions else ""
        return f" or give more capacity (--capacity{most})"

    def cross_attention(self) -> dict[str, npt.NDArray[np.float32]]:
        """Keys and values of the source, by the names of `graph_io.cross_names`."""
        return {name: value.numpy() for name, value in self._cross.items()}

    def _check_tokens(self, tokens: Sequence[int]) -> None:
        lowest, highest = min(tokens), max(tokens)
        if lowest < 0 or highest >= self.vocab_size:
            wrong = lowest if lowest < 0 else highest
            raise UsageError(f"token {wrong} is outside the model's {self.vocab_size} tokens")

    def _encode(self, prompt: Sequence[int]) -> None:
        assert self._encoder is not None
        names = [name for layer in range(self._layers) for name in graph_io.cross_names(layer)]
        began = time.perf_counter()
        tokens = ort.OrtValue.ortvalue_from_numpy(np.array(prompt, np.int64))
        with as_edgespec_errors():
            values = self._encoder.run_with_ort_values(names, {graph_io.TOKENS: tokens})
        self.seconds += time.perf_counter() - began
        self._cross = dict(zip(names, values, strict=True))

    def _logits(
        self, tokens: Sequence[int], candidates: Sequence[Candidate] = (), *, prefill: bool = False
    ) -> LogitsCall:
        rows = max(len(tokens) + len(candidates), self._min_rows)
        skip = 0
        if prefill:  # a row of logits is the least that a graph computes, unless it has the kernel
            skip = rows if self.returns_top_tokens else rows - 1
        call = self._call(LogitsCall, rows, len(candidates), skip)
        self._run(call, tokens, candidates)
        return call

    def _call(
        self, kind: Callable[..., SomeCall], rows: int, candidates: int, *how: int
    ) -> SomeCall:
        """A call of so many positions, made when it first comes."""
        key = kind, rows, candidates, *how
        call = cast(SomeCall | None, self._calls.get(key))
        if call is None:
            with as_edgespec_errors():
                call = kind(self, rows, candidates, *how)
            if rows <= graph_io.MAX_ROWS:  # longer ones, of prompts, seldom come again
                self._calls[key] = call
        return call

    def _run(self, call: Call, tokens: Sequence[int], candidates: Sequence[Candidate]) -> None:
        self._fill(call, tokens)
        call.set_candidates(candidates)
        self._branched = (call, self.length) if candidates else None
        began = time.perf_counter()
        with as_edgespec_errors():
            self._decoder.run_with_iobinding(call.binding)
        self.seconds += time.perf_counter() - began
        self._keep(call, len(tokens))

    def _fill(self, call: Call, tokens: Sequence[int]) -> None:
        """Puts into a call what these tokens need."""
        call.tokens[: len(tokens)] = tokens
        call.tokens[len(tokens) :] = DUMMY_TOKEN
        call.past_length[0] = self.length
        call.bind_source(self._cross)

    def _keep(self, call: Call, count: int) -> None:
        """Takes from a call what later ones, or another model, need of its first positions."""
        if self.features is not None:
            self.features[self.length : self.length + count] = call.rows[graph_io.FEATURES][:count]


def _taken(decoder: ort.InferenceSession, graph: str, device: Device) -> tuple[int, int] | None:
    """See `OrtModel.operators`; a provider that runs nothing would only be a name."""
    if device.provider == CPU:
        return None
    taken, count = operators_taken(decoder, device)
    if not taken:
        raise EdgespecError(
            f"{device.provider} runs none of the {count} operators of {graph}; take another "
            "provider (cpu)"
        )
    return taken, count


def _returns_several_top_tokens(decoder: ort.InferenceSession) -> bool:
    """Whether the tokens of a graph are [rows, best]; those of older exports have no kernels."""
    ranks = {value.name: len(value.shape) for value in decoder.get_outputs()}
    return ranks[graph_io.TOP_TOKENS] == 2


def _further(decoder: ort.InferenceSession) -> dict[str, int]:
    """Numbers of each position that only a target that is read has, or a draft that reads: names of
    inputs and outputs, and their widths."""
    names = (graph_io.FEATURES, graph_io.FUSED_STATES, graph_io.HIDDEN)
    values = [*decoder.get_inputs(), *decoder.get_outputs()]
    return {value.name: value.shape[1] for value in values if value.name in names}


class Call:
    """The buffers of decoder calls with a given number of positions, bound once; what comes out of
    the head is a subclass's.

    Attributes:
        tokens: [positions], those of candidates last.
        parents: [candidates], the positions of the call that they stand behind.
        rows: what `_further` names: [positions, width] each.
    """

    def __init__(self, model: OrtModel, rows: int, candidates: int, skip: int) -> None:
        self.tokens = np.zeros(rows, np.int64)
        self.parents = np.zeros(candidates, np.int64)
        self.past_length = np.zeros(1, np.int64)
        self.skip = np.array([skip], np.int64)
        self.binding = model._decoder.io_binding()
        self._bind_input(graph_io.TOKENS, self.tokens)
        self._bind_input(graph_io.PAST_LENGTH, self.past_length)
        self._bind_input(graph_io.SKIP, self.skip)
        if candidates:
            self._bind_input(graph_io.PARENTS, self.parents)
        for buffer, array in model._cache.items():
            self._bind_input(buffer.past, array)
            self._bind_output(buffer.present, array)
        self.rows = {
            name: np.zeros((rows, width), np.float32) for name, width in model._further.items()
        }
        for name, further in self.rows.items():
            (self._bind_input if name == graph_io.FUSED_STATES else self._bind_output)(
                name, further
            )
        self._source: dict[str, ort.OrtValue] = {}

    def set_candidates(self, candidates: Sequence[Candidate]) -> None:
        """As many as the call has."""
        if candidates:
            self.parents[:], self.tokens[-len(candidates) :] = zip(*candidates, strict=True)

    def bind_source(self, cross: dict[str, ort.OrtValue]) -> None:
        """Binds the cross-attention of a source, unless it is bound already."""
        if cross is not self._source:
            for name, value in cross.items():
                self.binding.bind_ortvalue_input(name, value)
            self._source = cross

    def _bind_input(self, name: str, array: npt.NDArray[Any]) -> None:
        self.binding.bind_input(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)

    def _bind_output(self, name: str, array: npt.NDArray[Any]) -> None:
        self.binding.bind_output(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)


class LogitsCall(Call):
    """Logits of all positions but the first `skip`."""

    def __init__(self, model: OrtModel, rows: int, candidates: int, skip: int) -> None:
        super().__init__(model, rows, candidates, skip)
        shared = model._logits_room
        count = rows - skip
        fits = count <= len(shared)
        self.logits = shared[:count] if fits else np.empty((count, model.vocab_size), np.float32)
        self._bind_output(graph_io.LOGITS, self.logits)


class TopTokensCall(Call):
    """Of all positions but the first `skip`, the best token, or the best ones and their probabilities."""

    def __init__(
        self, model: OrtModel, rows: int, candidates: int, skip: int, probabilities: bool
    ) -> None:
        super().__init__(model, rows, candidates, skip)
        self._asked = np.array([2 if probabilities else 1], np.int64)
        shape = rows - skip, graph_io.TOP_K if probabilities else 1
        self._tokens = np.empty(shape, np.int64)
        self._logits = np.empty(shape, np.float32)
        self._probabilities = np.empty(shape, np.float32) if probabilities else None
        self._bind_input(graph_io.OUTPUT_MODE, self._asked)
        self._bind_output(graph_io.TOP_TOKENS, self._tokens)
        self._bind_output(graph_io.TOP_LOGITS, self._logits)
        if self._probabilities is not None:
            self._bind_output(graph_io.TOP_PROBABILITIES, self._probabilities)

    def first(self, count: int) -> TopTokens:
        """Of the first positions; those behind them pad the call."""
        probabilities = None if self._probabilities is None else self._probabilities[:count]
        return TopTokens(self._tokens[:count], self._logits[:count], probabilities)
