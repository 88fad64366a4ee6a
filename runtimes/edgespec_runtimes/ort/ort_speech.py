"""Runs a speech model: its encoder reads sound, and its decoder a text about it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from edgespec.artifact import graph_io
from edgespec.errors import EdgespecError
from edgespec_runtimes.ort.ort_model import OrtModel

__all__ = ["OrtSpeech"]


class OrtSpeech(OrtModel):
    """A decoder of text about a window of sound. Arguments are those of `OrtModel`.

    Its encoder reads the sound, and its prompts are the decoder's.
    """

    _log_mel: npt.NDArray[np.float32] | None = None

    def hear(self, log_mel: npt.NDArray[np.float32]) -> None:
        """Takes the window of sound that the next texts are about.

        The encoder reads it when the first of them begins: a draft that is not asked to draft
        never does.

        Args:
            log_mel: `graph_io.LOG_MEL`.
        """
        self.rewind(0)
        self._cross = {}
        self._log_mel = np.ascontiguousarray(log_mel)

    def prefill(self, prompt: Sequence[int], assistant_spans: Sequence[range] | None = None) -> int:
        """Starts a text about the window; see `edgespec.core.model.Model.prefill`."""
        if not self._cross:
            if self._log_mel is None or self._encoder is None:
                raise EdgespecError("a speech model was given no sound; let it hear a window first")
            sound = ort.OrtValue.ortvalue_from_numpy(self._log_mel)
            with self._computing():
                self._cross = self._encoder.encode({graph_io.LOG_MEL: sound})
        return super().prefill(prompt, assistant_spans)
