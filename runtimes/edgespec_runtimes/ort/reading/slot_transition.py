"""The graph of what a drafted token says about the token after it, in a block of masks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from edgespec.artifact import graph_io

__all__ = ["SlotTransition"]

Rows = npt.NDArray[np.float32]


class SlotTransition:
    """Completes a block's rows one by one, as the tokens before them are known.

    Args:
        session: of the graph.

    Attributes:
        state_width: of the hidden states that it reads; 0 if none.
        has_confidence: it says how probable it is that a row's token is accepted.
    """

    def __init__(self, session: ort.InferenceSession, vocab_size: int) -> None:
        self._session = session
        inputs = {value.name: value.shape for value in self._session.get_inputs()}
        outputs = {value.name for value in self._session.get_outputs()}
        self.state_width: int = inputs.get(graph_io.SLOT_STATES, [0, 0])[1]
        self.has_confidence = graph_io.CONFIDENCE in outputs
        self._changes_logits = graph_io.LOGITS in outputs
        self._token = np.zeros(1, np.int64)
        self._read = np.zeros((1, vocab_size), np.float32)
        self._state = np.zeros((1, self.state_width), np.float32)
        self._logits = np.zeros((1, vocab_size), np.float32)
        self._confidence = np.zeros((1, 1), np.float32)
        self._latest: tuple[int, int] | None = None  # row and token of what it holds
        self._binding = self._session.io_binding()
        of_inputs = (
            (graph_io.TOKENS, self._token),
            (graph_io.SLOT_LOGITS, self._read),
            (graph_io.SLOT_STATES, self._state),
        )
        of_outputs = ((graph_io.LOGITS, self._logits), (graph_io.CONFIDENCE, self._confidence))
        for names, arrays, bind in (
            (inputs, of_inputs, self._binding.bind_input),
            (outputs, of_outputs, self._binding.bind_output),
        ):
            for name, array in arrays:
                if name in names:
                    bind(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)

    def copy(self) -> SlotTransition:
        """The same graph for the rows of other blocks."""
        return SlotTransition(self._session, self._read.shape[1])

    def forget(self) -> None:
        """Says that the rows are another block's from now on."""
        self._latest = None

    def logits(self, rows: Rows, states: Rows, row: int, token: int) -> Rows:
        """[vocab_size]: those of a row after a token; valid until the next call."""
        if self._changes_logits:
            self._run(rows, states, row, token)
            rows, row = self._logits, 0
        found: Rows = rows[row]
        return found

    def confidence(self, rows: Rows, states: Rows, row: int, token: int) -> float:
        """The probability that the row's token is accepted if `token` before it is."""
        self._run(rows, states, row, token)
        return float(self._confidence[0, 0])

    def _run(self, rows: Rows, states: Rows, row: int, token: int) -> None:
        if self._latest == (row, token):
            return
        self._token[0], self._read[0] = token, rows[row]
        if self.state_width:
            self._state[0] = states[row]
        self._session.run_with_iobinding(self._binding)
        self._latest = row, token
