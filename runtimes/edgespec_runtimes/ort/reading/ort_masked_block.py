"""Runs a draft that fills a block of masks with one call: DFlash, DFlash-2 and DSpark."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from copy import copy
from itertools import zip_longest
from pathlib import Path
from typing import Unpack

import numpy as np
import numpy.typing as npt

from edgespec.artifact import graph_io
from edgespec.artifact.manifest import Exported, Variant
from edgespec.core.model import Candidate, common_length
from edgespec.core.requests import Read
from edgespec.errors import EdgespecError
from edgespec.scheduler.shared_calls import SequenceBatch
from edgespec_runtimes.ort.cache_memory import memory_errors
from edgespec_runtimes.ort.graph_run import MaskedBlockRun
from edgespec_runtimes.ort.ort_batch import OrtBatch
from edgespec_runtimes.ort.ort_decoder import OrtDecoder
from edgespec_runtimes.ort.ort_model import ModelOptions, OrtModel
from edgespec_runtimes.ort.ort_sequence import OrtSequence
from edgespec_runtimes.ort.prefill import CachedPosition
from edgespec_runtimes.ort.reading.ort_eagle import OrtEagle
from edgespec_runtimes.ort.reading.slot_transition import SlotTransition
from edgespec_runtimes.ort.session import open_session

__all__ = ["OrtMaskedBlock"]

MOST_KNOWN_ROWS = 1024  # of the text in one call, which bounds its memory


class OrtMaskedBlock(OrtEagle):
    """A draft whose cache holds what its layers read of its target, for the text before a block.

    The call of a token whose target has been at every position before it extends that cache, and
    computes a row for each token that may be drafted after it. A drafted token is scored by its
    transition only. The token itself and those after it are never in the cache, and not part of
    `valid_length`.

    Arguments are those of `OrtEagle`.

    Attributes:
        block: how many tokens it can draft in a row.
    """

    def __init__(
        self,
        folder: Path,
        exported: Exported,
        variant: str,
        target: OrtModel,
        **options: Unpack[ModelOptions],
    ) -> None:
        super().__init__(folder, exported, variant, target, **options)
        assert exported.block_rows is not None, "it fills blocks"
        self.shares_calls = False  # a block's rows see each other
        self.returns_top_tokens = False  # a row is complete only with its transition
        self.block = int(self.graph.metadata[graph_io.BLOCK])
        masks = [int(self.graph.metadata[graph_io.MASK])] * (exported.block_rows - 1)
        self._masks: list[int] = masks
        graphs = exported.variants[variant].graphs
        self._transition: SlotTransition | None = None
        if graph_io.TRANSITION in graphs:
            file = folder / graphs[graph_io.TRANSITION]
            session = open_session(file, self._device)
            self._transition = SlotTransition(session, exported.vocab_size)
        self._scoring: OrtModel | OrtSequence = target  # the target's sequence of this one
        self._known = 0  # positions in the cache
        self._anchor = 0  # position of the token that the rows of a block follow
        self._rows = np.empty((0, exported.vocab_size), np.float32)
        self._states = np.empty((0, 0), np.float32)

    def _opened_decoder(self, folder: Path, variant: Variant) -> OrtDecoder:
        return self._opened_decoder_of_block()

    def _opened_decoder_of_block(self) -> OrtDecoder:
        """A cache with room for a block after the last position."""
        rows = self._exported.block_rows or 0
        positions, most_rows = self.capacity + rows, graph_io.MAX_ROWS + rows
        with memory_errors(self.capacity):
            return OrtDecoder(self.graph, self._exported, self._variant, positions, most_rows)

    def beside(self, target: SequenceBatch, capacity: int) -> list[OrtMaskedBlock]:
        """See `edgespec.scheduler.shared_calls.OwnCallsDraft`."""
        assert isinstance(target, OrtBatch)
        return [self._for(sequence, target, capacity) for sequence in target.sequences]

    def _for(self, sequence: OrtSequence, target: OrtBatch, capacity: int) -> OrtMaskedBlock:
        """The same draft with a cache of its own, for one of several sequences of its target."""
        assert target.features is not None
        other = copy(self)
        other.capacity, other.seconds = capacity, 0.0
        other._cached, other._candidates = [], []
        other._decoder = other._opened_decoder_of_block()
        other._scoring = sequence
        other._target_features = target.features[sequence.start : sequence.start + capacity]
        other._transition = None if self._transition is None else self._transition.copy()
        other._known = other._anchor = 0
        other._rows = np.empty((0, self.vocab_size), np.float32)
        return other

    def _scored(self) -> int:
        """Positions that the target has scored; what it has not read yet of a prompt is read."""
        if isinstance(self._scoring, OrtSequence) and self._scoring.unread:
            self._scoring.batch.compute([Read(self._scoring, ())])
        return self._scoring.length

    @property
    def valid_length(self) -> int:
        """Leading positions whose keys and values are in the cache."""
        return min(self._known, self.length)

    def prefill(self, prompt: Sequence[int], assistant_spans: Sequence[range] | None = None) -> int:
        """Starts a sequence and returns its pending token; the first block's call reads it."""
        self._check_prompt(prompt)
        keys = self._position_keys(prompt[:-1])
        kept = common_length(self.cached_keys(self.valid_length), keys)
        self.rewind(0 if assistant_spans is None else kept)
        self._cached += [CachedPosition(key, None) for key in keys[self.length :]]
        return prompt[-1]

    def _position_keys(self, tokens: Sequence[int]) -> list[Hashable]:
        return list(zip_longest(tokens, self._scoring.cached_keys(len(tokens))))

    def rewind(self, length: int) -> None:
        super().rewind(length)
        self._known = min(self._known, length)

    def score(
        self, tokens: Sequence[int], candidates: Sequence[Candidate] = ()
    ) -> npt.NDArray[np.float32]:
        """Appends `tokens`; returns the logits after the last one, and zeros in the rows before."""
        count = len(tokens)
        self._check_room(count)
        last = self.length + count - 1
        scored = self._scored()
        if last <= scored:
            self._fill(tokens[-1], last)
        elif count > 1 or not 0 < last - self._anchor < len(self._rows):
            raise EdgespecError(
                f"asked to score positions {self.length} to {last} where the target has scored "
                f"{scored}; score later ones one at a time, at most {self.block - 1}"
            )
        self._append(tokens)
        logits = np.zeros((count, self.vocab_size), np.float32)
        logits[-1] = self._row_after(last - self._anchor, tokens[-1])
        return logits

    def confidence_after(self, token: int) -> float:
        """See `edgespec.core.model.BlockModel`; 1 in the block where the draft says nothing."""
        row = self.length - self._anchor
        if not 0 < row < len(self._rows):
            return 0.0
        if self._transition is None or not self._transition.has_confidence:
            return 1.0
        with self._computing():
            return self._transition.confidence(self._rows, self._states, row, token)

    def _row_after(self, row: int, token: int) -> npt.NDArray[np.float32]:
        """The logits of a row of the block, where `token` is before its own."""
        if self._transition is None:
            found: npt.NDArray[np.float32] = self._rows[row]
            return found
        with self._computing():
            return self._transition.logits(self._rows, self._states, row, token)

    def _fill(self, token: int, position: int) -> None:
        """Computes the rows of the block after a token, and what the cache lacks before it."""
        while True:
            end = min(position, self._known + MOST_KNOWN_ROWS)
            call = self._called(token, end)
            self._known = end
            if end == position:
                break
        self._anchor = position
        self._rows, self._states = call.logits, call.slot_states
        if self._transition is not None:
            self._transition.forget()

    def _called(self, token: int, end: int) -> MaskedBlockRun:
        """Runs the call that extends the cache up to position `end`."""
        known, block = end - self._known, [token, *self._masks]
        width = 0 if self._transition is None else self._transition.state_width
        call = self._decoder.masked_block_call(known + len(block), self.block, width)
        if known:  # the fusion of no rows would be none
            features = {graph_io.FEATURES: self._target_features[self._known : end]}
            with self._computing():
                (states,) = self._fusion.run([graph_io.FUSED_STATES], features)
            call.states[graph_io.FUSED_STATES][:known] = np.asarray(states)
        call.set_block(block, known, self._known)
        with self._computing():
            self._decoder.run(call)
        return call
