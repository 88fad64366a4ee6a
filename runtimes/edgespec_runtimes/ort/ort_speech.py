"""Runs a speech model: its encoder reads sound, and its decoder a text about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Unpack, cast

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from edgespec.artifact import graph_io
from edgespec.artifact.manifest import Exported
from edgespec.device.device import Device
from edgespec.errors import EdgespecError, UsageError
from edgespec_runtimes.ort.ort_model import ModelOptions, OrtModel
from edgespec_runtimes.ort.session import open_session

__all__ = ["OrtSpeech"]


class OrtSpeech(OrtModel):
    """A decoder of text about a window of sound. Arguments are those of `OrtModel`.

    Its encoder reads the sound, and its prompts are the decoder's.
    """

    _log_mel: npt.NDArray[np.float32] | None = None

    def __init__(
        self, folder: Path, exported: Exported, variant: str, **options: Unpack[ModelOptions]
    ) -> None:
        super().__init__(folder, exported, variant, **options)
        self._folder = folder

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
        self._read_sound()
        return super().prefill(prompt, assistant_spans)

    def check_alignment(self) -> None:
        """Raises UsageError if `alignment` has no graph."""
        if graph_io.ALIGNMENT not in self._exported.variants[self._variant].graphs:
            raise UsageError(
                f"{self._exported.source} was exported without the heads that follow the sound, so "
                "words have no times: export it again, from a checkpoint with alignment_heads in "
                "its generation_config.json"
            )

    def alignment(self, tokens: Sequence[int]) -> npt.NDArray[np.float32]:
        """Which part of the window each token of a text is about: see
        `edgespec.speech.word_times.Alignment`. The cache stays as it is.

        Args:
            tokens: of a whole text, its prompt included.
        """
        self._read_sound()
        with self._computing():
            return self._alignment_graph.shares(tokens, self._cross)

    @cached_property
    def _alignment_graph(self) -> _AlignmentGraph:
        """Opened when times are first asked for."""
        self.check_alignment()
        graph = self._exported.variants[self._variant].graphs[graph_io.ALIGNMENT]
        return _AlignmentGraph(self._folder / graph, self._device)

    def _read_sound(self) -> None:
        """Lets the encoder read the window, unless it has."""
        if self._cross:
            return
        if self._log_mel is None or self._encoder is None:
            raise EdgespecError("a speech model was given no sound; let it hear a window first")
        sound = ort.OrtValue.ortvalue_from_numpy(self._log_mel)
        with self._computing():
            self._cross = self._encoder.encode({graph_io.LOG_MEL: sound})


class _AlignmentGraph:
    """An alignment graph.

    Args:
        graph: the ONNX file.
    """

    def __init__(self, graph: Path, device: Device) -> None:
        self._session = open_session(graph, device)
        names = {value.name for value in self._session.get_inputs()}
        self._cross_names = names - {graph_io.TOKENS}

    def shares(
        self, tokens: Sequence[int], cross: Mapping[str, ort.OrtValue]
    ) -> npt.NDArray[np.float32]:
        """What `graph_io.ALIGNMENT` says of a whole text, [heads, tokens, source].

        Args:
            cross: keys and values of the source, by the names of `graph_io.cross_names`.
        """
        inputs = {name: cross[name] for name in self._cross_names}
        inputs[graph_io.TOKENS] = ort.OrtValue.ortvalue_from_numpy(np.array(tokens, np.int64))
        (found,) = self._session.run_with_ort_values([graph_io.ALIGNMENT], inputs)
        return cast("npt.NDArray[np.float32]", found.numpy())
