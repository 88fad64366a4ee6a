"""Runs a draft that reads its target's hidden states: `families/eagle.py` of the export."""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from itertools import zip_longest
from pathlib import Path

import numpy as np
import numpy.typing as npt

from edgespec.artifact import graph_io, manifest
from edgespec.core.device import HERE, Device
from edgespec.errors import EdgespecError
from edgespec_runtimes.ort.ort_model import Call, OrtModel
from edgespec_runtimes.ort.session import as_edgespec_errors, open_session

__all__ = ["OrtEagle"]


class OrtEagle(OrtModel):
    """A draft over a target's shoulder: it scores what the target has scored, and a little more.

    A position takes the target's features of the one before it. Where the target has none, it takes
    the draft's own hidden state there, so such positions are scored one by one; they are not
    `valid_length`, and better scored anew when the target has been there.

    Args:
        target: whose features it reads; the two hold the same text.
    """

    def __init__(
        self,
        folder: Path,
        exported: manifest.Exported,
        variant: str,
        target: OrtModel,
        *,
        capacity: int | None = None,
        device: Device = HERE,
        min_rows: int = 1,
    ) -> None:
        super().__init__(
            folder, exported, variant, capacity=capacity, device=device, min_rows=min_rows
        )
        reader = exported.variants[variant].graphs[graph_io.FEATURE_FUSION]
        self._reader = open_session(folder / reader, device)
        if target.features is None or target.features.shape[1] != exported.features:
            shown = 0 if target.features is None else target.features.shape[1]
            raise EdgespecError(
                f"the draft reads {exported.features} numbers of each position and the target "
                f"shows {shown}; export the two together"
            )
        self._features = target.features
        self._target = target
        self._width = self._reader.get_outputs()[0].shape[1]
        self._settled = 0
        self._hidden = np.zeros(self._width, np.float32)
        self._hidden_of = -1  # the position it stands behind

    @property
    def valid_length(self) -> int:
        return min(self._settled, self.length)

    def _read_as(self, tokens: Sequence[int]) -> list[Hashable]:
        """With the target's own tokens: those that the draft lacks are one to it, but the features
        of what follows them are not."""
        own = [token for token, _ in self._target._cached[: len(tokens)]]
        return list(zip_longest(tokens, own))

    def _fill(self, call: Call, tokens: Sequence[int]) -> None:
        super()._fill(call, tokens)
        first, end = self.length, self.length + len(tokens)
        read = self._target.length + 1  # of as many positions the target has been in front
        states = call.rows[graph_io.FUSED_STATES]
        if end <= read:
            states[: len(tokens)] = self._read(first, end)
            self._settled = end if self.valid_length == first else self.valid_length
        elif len(tokens) == 1 and self._hidden_of == first - 1:
            states[0] = self._hidden
            self._settled = self.valid_length
        else:
            raise EdgespecError(
                f"asked to score positions {first} to {end - 1} where the target has been at "
                f"{self._target.length}; score those behind it one at a time"
            )

    def _keep(self, call: Call, count: int) -> None:
        self._hidden_of = self.length + count - 1
        self._hidden[:] = call.rows[graph_io.HIDDEN][count - 1]

    def _read(self, first: int, end: int) -> npt.NDArray[np.float32]:
        """What these positions are to know of the ones before them: of the first one, nothing."""
        if first == 0:
            nothing = np.zeros((1, self._width), np.float32)
            return nothing if end == 1 else np.concatenate([nothing, self._read(1, end)])
        began = time.perf_counter()
        features = {graph_io.FEATURES: self._features[first - 1 : end - 1]}
        with as_edgespec_errors():
            (states,) = self._reader.run([graph_io.FUSED_STATES], features)
        self.seconds += time.perf_counter() - began
        return np.asarray(states)
