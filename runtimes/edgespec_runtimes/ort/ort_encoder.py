"""The encoder of an encoder-decoder: runs once for each source."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime as ort

from edgespec.artifact import graph_io
from edgespec.core.device import Device
from edgespec_runtimes.ort.session import open_session

__all__ = ["OrtEncoder"]


class OrtEncoder:
    """An encoder graph.

    Args:
        graph: the ONNX file.
        layers: of the decoder.
    """

    def __init__(self, graph: Path, layers: int, device: Device) -> None:
        self._session = open_session(graph, device)
        self._outputs = [name for layer in range(layers) for name in graph_io.cross_names(layer)]

    def encode(self, source: Sequence[int]) -> dict[str, ort.OrtValue]:
        """Cross-attention keys and values of a source, by the names of `graph_io.cross_names`:
        float32 [1, heads, source length, head_size]."""
        tokens = ort.OrtValue.ortvalue_from_numpy(np.array(source, np.int64))
        values = self._session.run_with_ort_values(self._outputs, {graph_io.TOKENS: tokens})
        return dict(zip(self._outputs, values, strict=True))
