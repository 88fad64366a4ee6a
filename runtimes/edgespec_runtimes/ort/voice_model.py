"""How probably somebody speaks: the model of the package silero-vad, without its code and torch."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnxruntime as ort

from edgespec.audio.sound import RATE, Sound
from edgespec.errors import EdgespecError
from edgespec.speech.voices import FRAME

__all__ = ["VoiceModel"]

CONTEXT = 64  # samples before a frame that the model sees again
AT_ONCE = 512  # frames of a call: 16 s
STATE = (1, 1, 128)
INSTALL = "pip install --no-deps 'silero-vad>=6.2.3' (it asks for torch, which is not used)"


class VoiceModel:
    """Silero's network for voice activity (MIT).

    Raises:
        EdgespecError: its package is not installed, or has no such model.
    """

    def __init__(self) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3  # it warns of initializers without a use
        self._session = ort.InferenceSession(
            str(_model_file()), options, providers=["CPUExecutionProvider"]
        )

    def probabilities(self, sound: Sound) -> Iterator[float]:
        """Of each `FRAME` samples that somebody speaks; the last ones are filled up with silence.

        Args:
            sound: with `RATE` samples per second; read piece by piece.
        """
        assert sound.rate == RATE, "the model reads one rate"
        h = c = np.zeros(STATE, np.float32)
        for start in range(0, sound.length, AT_ONCE * FRAME):
            frames = min(AT_ONCE, -(-(sound.length - start) // FRAME))
            samples = sound.read(start - CONTEXT, CONTEXT + frames * FRAME)
            seen = np.lib.stride_tricks.sliding_window_view(samples, CONTEXT + FRAME)[::FRAME]
            found, h, c = self._session.run(
                ["speech_probs", "hn", "cn"], {"input": np.ascontiguousarray(seen), "h": h, "c": c}
            )
            yield from map(float, np.asarray(found).reshape(-1))


def _model_file() -> Path:
    """The file in the package, which is not imported: that would need torch."""
    package = find_spec("silero_vad")
    for folder in package.submodule_search_locations or () if package else ():
        file = Path(folder) / "data" / "silero_vad_16k_sequence.onnx"
        if file.is_file():
            return file
    raise EdgespecError(f"finding voices needs a model of the package silero-vad: {INSTALL}")
