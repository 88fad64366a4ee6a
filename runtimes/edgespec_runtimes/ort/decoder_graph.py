"""A decoder graph that is loaded once, however many caches use it."""

from __future__ import annotations

from pathlib import Path

import onnxruntime as ort

from edgespec.artifact import graph_io
from edgespec.device.device import CPU, Device
from edgespec.errors import EdgespecError
from edgespec_runtimes.ort.providers import find_provider
from edgespec_runtimes.ort.providing.placement import count_operators
from edgespec_runtimes.ort.recurrent_states import recurrent_layers
from edgespec_runtimes.ort.session import as_edgespec_errors, open_session

__all__ = ["DecoderGraph"]

OTHER = "take another provider (cpu)"
STATES = (graph_io.FEATURES, graph_io.FUSED_STATES, graph_io.HIDDEN, graph_io.CONFIDENCE)


class DecoderGraph:
    """A session of a decoder graph, and what it says about itself.

    Args:
        folder: of the manifest.
        file: the ONNX file in it.
        precision: of a graph with fixed shapes (`StaticCalls.precision`); None of others.

    Attributes:
        session: ONNX Runtime's.
        provider: its name.
        memory: ONNX Runtime's name of the device whose memory the provider uses; None if that is
            the host's, or not known.
        is_remote: what a call reads is copied to the device.
        operators: how many of the graph's operators the device's provider runs, and how many there
            are; None on the processor, which runs all operators that other providers do not.
        inputs: names of inputs that may not be left out.
        optional_inputs: names of inputs that may be left out.
        state_widths: widths of the hidden states that the graph takes or returns, by their names in
            `graph_io`.
        recurrent_layers: those that keep states.
        metadata: what the graph's file says about it.
    """

    def __init__(
        self, folder: Path, file: str, device: Device, precision: str | None = None
    ) -> None:
        self.session = open_session(folder / file, device, precision, profiled=True)
        self.provider = device.provider
        self.operators = _operators_taken(self.session, file, device)
        self.is_remote = device.provider != CPU
        self.memory = find_provider(device.provider).memory
        self.inputs = {value.name for value in self.session.get_inputs()}
        self.optional_inputs = {value.name for value in self.session.get_overridable_initializers()}
        self.recurrent_layers = recurrent_layers(self.session)
        self.metadata: dict[str, str] = self.session.get_modelmeta().custom_metadata_map
        values = [*self.session.get_inputs(), *self.session.get_outputs()]
        self.state_widths: dict[str, int] = {
            value.name: value.shape[1] for value in values if value.name in STATES
        }


def _operators_taken(
    session: ort.InferenceSession, graph: str, device: Device
) -> tuple[int, int] | None:
    """See `DecoderGraph.operators`.

    Raises:
        EdgespecError: the provider runs none of them.
    """
    if device.provider == CPU:
        return None
    with as_edgespec_errors(f"{graph} cannot be run on {device.provider}", way_out=OTHER):
        taken, count = count_operators(session, find_provider(device.provider).title)
    if not taken:
        raise EdgespecError(
            f"{device.provider} runs none of the {count} operators of {graph}; {OTHER}"
        )
    return taken, count
