"""Several sequences of an EAGLE head that share its calls, each beside its target's sequence."""

from __future__ import annotations

from collections.abc import Generator, Hashable, Sequence
from itertools import zip_longest

import numpy as np
import onnxruntime as ort

from edgespec.artifact import graph_io
from edgespec.artifact.manifest import Exported
from edgespec.core.requests import Read
from edgespec_runtimes.ort.decoder_graph import DecoderGraph
from edgespec_runtimes.ort.graph_run import GraphRun
from edgespec_runtimes.ort.ort_batch import OrtBatch, SharedRows
from edgespec_runtimes.ort.ort_sequence import OrtSequence
from edgespec_runtimes.ort.prefill import CachedPosition
from edgespec_runtimes.ort.reading.eagle_positions import EaglePositions

__all__ = ["EagleBatch", "EagleSequence"]


class EagleBatch(OrtBatch):
    """The sequences of an EAGLE head, one for each of its target's.

    Args:
        target: whose features they read.
        fusion: the session of the feature fusion.
        capacity: positions of each.

    Raises:
        UsageError: there is no memory for their caches.
    """

    def __init__(
        self,
        target: OrtBatch,
        graph: DecoderGraph,
        fusion: ort.InferenceSession,
        exported: Exported,
        variant: str,
        capacity: int,
    ) -> None:
        assert target.features is not None
        self._target = target
        self._target_features = target.features
        self._fusion = fusion
        self._width: int = fusion.get_outputs()[0].shape[1]
        count = len(target.sequences)
        super().__init__(graph, None, exported, variant, count, capacity, candidates=False)

    def _sequence(
        self, exported: Exported, number: int, start: int, capacity: int
    ) -> EagleSequence:
        target = self._target.sequences[number]
        return EagleSequence(self, exported, start, capacity, target, self._width)

    def encode(self, source: Sequence[int], start: int) -> int:
        """Nothing is kept of a source: the target reads it."""
        return 0

    def _set_states(self, call: GraphRun, rows: SharedRows) -> None:
        """Rows take the fused features of the position before them, zeros before the first, or the
        hidden state of the row before them."""
        states = call.states[graph_io.FUSED_STATES]
        fused: list[int] = []  # rows
        read: list[int] = []  # for each, the index of the features that it takes
        for part in rows.parts:
            sequence = part.sequence
            assert isinstance(sequence, EagleSequence)
            numbers = rows.of_tokens(part)
            first = sequence.computed_length
            end, scored = first + len(numbers), sequence.target.computed_length
            if not sequence.head.takes_features(first, end, scored):
                states[numbers[0]] = sequence.head.hidden
                continue
            if first == 0:
                states[numbers[0]] = 0
            before = sequence.target.start + first - 1
            fused += numbers[int(first == 0) :]
            read += range(before + (first == 0), before + len(numbers))
        if fused:
            features = {graph_io.FEATURES: self._target_features[read]}
            (found,) = self._fusion.run([graph_io.FUSED_STATES], features)
            states[fused] = np.asarray(found)

    def _store_states(self, call: GraphRun, rows: SharedRows) -> None:
        hidden = call.states[graph_io.HIDDEN]
        for part in rows.parts:
            sequence = part.sequence
            assert isinstance(sequence, EagleSequence)
            last = rows.of_tokens(part)[-1]
            sequence.head.keep_hidden(hidden[last], sequence.length + len(part.tokens) - 1)


class EagleSequence(OrtSequence):
    """A sequence of an EAGLE head; see `edgespec_runtimes.ort.reading.ort_eagle.OrtEagle`.

    Args:
        target: the same sequence of the target, whose features it reads.
        width: of a hidden state.

    Attributes:
        head: where its rows take their states from.
    """

    def __init__(
        self,
        batch: EagleBatch,
        exported: Exported,
        start: int,
        capacity: int,
        target: OrtSequence,
        width: int,
    ) -> None:
        super().__init__(batch, exported, start, capacity)
        self.target = target
        self.head = EaglePositions(width)

    def reading(
        self, prompt: Sequence[int], assistant_spans: Sequence[range] | None = None
    ) -> Generator[Read, None, int]:
        if self.target.unread:
            yield Read(self.target, ())
        return (yield from super().reading(prompt, assistant_spans))

    @property
    def valid_length(self) -> int:
        """Leading positions of the cache that were computed from the target's features."""
        return self.head.valid_length(self.length)

    def position_keys(self, prompt: Sequence[int]) -> Sequence[Hashable]:
        """The head's and the target's token ids, as of `OrtEagle`."""
        return self._keys(prompt, 0)

    def _copied(self, length: int) -> None:
        self.head.copied(length)

    def _append(self, tokens: Sequence[int]) -> None:
        self._cached += [CachedPosition(key, None) for key in self._keys(tokens, self.length)]

    def _keys(self, tokens: Sequence[int], start: int) -> list[Hashable]:
        """Of tokens from position `start` on."""
        return list(zip_longest(tokens, self.target.cached_keys(start + len(tokens), start)))
