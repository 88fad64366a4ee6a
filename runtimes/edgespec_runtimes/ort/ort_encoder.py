"""The encoder of an encoder-decoder: runs once for each source."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import onnxruntime as ort

from edgespec.artifact import graph_io
from edgespec.device.device import Device
from edgespec_runtimes.ort.providers import find_provider
from edgespec_runtimes.ort.session import open_session

__all__ = ["OrtEncoder"]


class OrtEncoder:
    """An encoder graph.

    Args:
        graph: the ONNX file.
    """

    def __init__(self, graph: Path, device: Device) -> None:
        self._session = open_session(graph, device)
        self._memory = find_provider(device.provider).memory or "cpu"
        self._outputs = [output.name for output in self._session.get_outputs()]

    def cross_shapes(self) -> list[tuple[str, int, int]]:
        """Name, heads and head size of each layer's cross-attention keys and values."""
        return [
            (output.name, output.shape[1], output.shape[3])
            for output in self._session.get_outputs()
            if output.name != graph_io.FEATURES
        ]

    def encode(self, inputs: Mapping[str, ort.OrtValue]) -> dict[str, ort.OrtValue]:
        """All outputs by name: cross-attention keys and values (`graph_io.cross_names`), float32
        [1, heads, source length, head_size], in the memory of the device, and maybe the encoder's
        states (`graph_io.FEATURES`), float32 [source length, width], in the host's.

        Args:
            inputs: a source's `graph_io.TOKENS`, int64 [source length]; of a draft with its
                target's encoder, that one's `graph_io.FEATURES`.
        """
        binding = self._session.io_binding()
        for name, value in inputs.items():
            binding.bind_ortvalue_input(name, value)
        for name in self._outputs:
            binding.bind_output(name, "cpu" if name == graph_io.FEATURES else self._memory)
        self._session.run_with_iobinding(binding)
        return dict(zip(self._outputs, binding.get_outputs(), strict=True))
