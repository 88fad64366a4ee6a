"""Sound that exists everywhere, to measure models on."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["sample_log_mel"]


def sample_log_mel(mel_bins: int, frames: int) -> npt.NDArray[np.float32]:
    """A spectrogram of noise [mel_bins, frames], in the range of speech: the same at each call."""
    generator = np.random.default_rng(0)
    return generator.uniform(-1, 1, (mel_bins, frames)).astype(np.float32)
