"""Runs an EAGLE head, a draft that takes its target's hidden states (arXiv:2503.01840)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Unpack

import numpy as np
import numpy.typing as npt

from edgespec.artifact import graph_io
from edgespec.artifact.manifest import Exported
from edgespec.errors import EdgespecError
from edgespec.scheduler.shared_calls import SequenceBatch
from edgespec_runtimes.ort.graph_run import GraphRun
from edgespec_runtimes.ort.ort_batch import OrtBatch
from edgespec_runtimes.ort.ort_model import ModelOptions, OrtModel
from edgespec_runtimes.ort.reading.eagle_batch import EagleBatch
from edgespec_runtimes.ort.reading.eagle_positions import EaglePositions
from edgespec_runtimes.ort.session import open_session

__all__ = ["OrtEagle", "checked_features"]


class OrtEagle(OrtModel):
    """An EAGLE head: a position takes the target's features of the position before it, fused.

    Until the target has computed them, a position takes the head's own hidden state. Such
    positions are scored one at a time and are not part of `valid_length`: they should be scored
    again after the target has computed its features.

    Args:
        target: whose features it takes; both hold the same sequence.
        options: as the other arguments, those of `OrtModel`.
    """

    def __init__(
        self,
        folder: Path,
        exported: Exported,
        variant: str,
        target: OrtModel,
        **options: Unpack[ModelOptions],
    ) -> None:
        super().__init__(folder, exported, variant, **options)
        fusion = exported.variants[variant].graphs[graph_io.FEATURE_FUSION]
        self._fusion = open_session(folder / fusion, self._device)
        self._target = target
        self._target_features = checked_features(target, exported)
        self._width: int = self._fusion.get_outputs()[0].shape[1]
        self._head = EaglePositions(self._width)

    @property
    def valid_length(self) -> int:
        """Leading positions of the cache that were computed from the target's features."""
        return self._head.valid_length(self.length)

    def batch_for(self, target: SequenceBatch, capacity: int) -> EagleBatch:
        """See `edgespec.scheduler.shared_calls.TargetStatesDraft`."""
        assert isinstance(target, OrtBatch)
        exported, variant = self._exported, self._variant
        batch = EagleBatch(target, self.graph, self._fusion, exported, variant, capacity)
        batch.prefixes = self.prefixes
        return batch

    def _position_keys(self, tokens: Sequence[int]) -> list[Hashable]:
        """The head's and the target's token ids.

        All tokens that the draft lacks have the same id there, but the features after them differ.
        """
        return list(zip_longest(tokens, self._target.cached_keys(len(tokens))))

    def _copied(self, length: int) -> None:
        self._head.copied(length)

    def _set_states(self, call: GraphRun, count: int) -> None:
        first, end = self.length, self.length + count
        states = call.states[graph_io.FUSED_STATES]
        if self._head.takes_features(first, end, self._target.length):
            states[:count] = self._fused(first, end)
        else:
            states[0] = self._head.hidden

    def _store_states(self, call: GraphRun, count: int) -> None:
        state = call.states[graph_io.HIDDEN][count - 1]
        self._head.keep_hidden(state, self.length + count - 1)

    def _fused(self, first: int, end: int) -> npt.NDArray[np.float32]:
        """The fused features of the position before each: [end - first, width], zeros before 0."""
        if first == 0:
            start = np.zeros((1, self._width), np.float32)
            return start if end == 1 else np.concatenate([start, self._fused(1, end)])
        features = {graph_io.FEATURES: self._target_features[first - 1 : end - 1]}
        with self._computing():
            (states,) = self._fusion.run([graph_io.FUSED_STATES], features)
        return np.asarray(states)


def checked_features(target: OrtModel, exported: Exported) -> npt.NDArray[np.float32]:
    """The target's features.

    Raises:
        EdgespecError: their width is not the one that the draft was exported for.
    """
    width = 0 if target.features is None else target.features.shape[1]
    if target.features is None or width != exported.features:
        raise EdgespecError(
            f"the draft takes {exported.features} features of each position and the target "
            f"returns {width}; export the two together"
        )
    return target.features
