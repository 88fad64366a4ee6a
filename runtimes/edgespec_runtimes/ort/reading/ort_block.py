"""Runs a block draft: one call computes the rows of several drafted tokens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

import numpy as np
import numpy.typing as npt

from edgespec.artifact import graph_io
from edgespec.artifact.manifest import Exported
from edgespec.core.model import Candidate
from edgespec.device.device import Device
from edgespec.errors import EdgespecError
from edgespec_runtimes.ort.graph_run import GraphRun
from edgespec_runtimes.ort.ort_model import ModelOptions, OrtModel
from edgespec_runtimes.ort.reading.ort_eagle import OrtEagle
from edgespec_runtimes.ort.session import open_session

__all__ = ["OrtBlock"]


class OrtBlock(OrtEagle):
    """An EAGLE head whose calls compute the rows of the next tokens, too, whatever they will be.

    Each call scores tokens where the target has computed its features, and `block - 1` rows ahead.
    A token that is scored there only adds its transition to a row: q is known when the next token
    is drawn. As with EAGLE, such positions are not part of `valid_length`.

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
        self.block = int(self.graph.metadata[graph_io.BLOCK])
        self.shares_calls = False  # its rows ahead are of one sequence
        self.returns_top_tokens = False  # a row is complete only with its transition
        transition = exported.variants[variant].graphs[graph_io.TRANSITION]
        self._transition = _Transition(folder / transition, exported.vocab_size, self._device)
        self._known = 0  # positions before the rows ahead
        self._ahead = np.empty((0, exported.vocab_size), np.float32)
        self._confidences = np.empty(0, np.float32)

    def confidence_after(self, token: int) -> float:
        """See `edgespec.core.model.BlockModel`; it is known before the next token is drawn, too."""
        index = self.length - self._known
        return float(self._confidences[index]) if 0 <= index < len(self._confidences) else 0.0

    def score(
        self, tokens: Sequence[int], candidates: Sequence[Candidate] = ()
    ) -> npt.NDArray[np.float32]:
        """Appends `tokens`; returns the logits after each."""
        count = len(tokens)
        self._check_room(count)
        index = self.length - self._known
        if self.length + count <= self._target.length + 1:
            logits = self._block_logits(tokens)
        elif count == 1 and 0 <= index < len(self._ahead):
            with self._computing():
                logits = self._transition.added_to(self._ahead[index], tokens[0])
        else:
            raise EdgespecError(
                f"asked to score positions {self.length} to {self.length + count - 1} where the "
                f"target has scored {self._target.length}; score later ones one at a time, at most "
                f"{self.block - 1}"
            )
        self._append(tokens)
        return logits

    def _block_logits(self, tokens: Sequence[int]) -> npt.NDArray[np.float32]:
        """The logits after each token; keeps the rows ahead of them."""
        count = len(tokens)
        ahead = min(self.block - 1, self.capacity - self.length - count)
        call = self._decoder.block_call(count + ahead, ahead)
        self._run(call, tokens, ())
        self._known = self.length + count
        self._ahead = call.logits[count:]
        self._confidences = call.states[graph_io.CONFIDENCE][count:, 0]
        return call.logits[:count]

    def _set_states(self, call: GraphRun, count: int) -> None:
        first, end = self.length, self.length + count
        states = call.states[graph_io.FUSED_STATES]
        states[:count] = self._fused(first, end)
        states[count:] = states[count - 1]
        call.tokens[count:] = call.tokens[count - 1]
        self._head.take_features(first, end)

    def _store_states(self, call: GraphRun, count: int) -> None:
        """Nothing: rows ahead do not read each other's states in later calls."""


class _Transition:
    """The graph of what each token adds to the logits of the next one."""

    def __init__(self, graph: Path, vocab_size: int, device: Device) -> None:
        self._session = open_session(graph, device)
        self._token = np.zeros(1, np.int64)
        self._added = np.empty((1, vocab_size), np.float32)
        self._sum = np.empty((1, vocab_size), np.float32)
        self._binding = self._session.io_binding()
        for bind, name, array in (
            (self._binding.bind_input, graph_io.TOKENS, self._token),
            (self._binding.bind_output, graph_io.LOGITS, self._added),
        ):
            bind(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)

    def added_to(self, logits: npt.NDArray[np.float32], token: int) -> npt.NDArray[np.float32]:
        """[1, vocabulary]: a row of logits after this token; valid until the next call."""
        self._token[0] = token
        self._session.run_with_iobinding(self._binding)
        return np.add(logits, self._added, out=self._sum)
