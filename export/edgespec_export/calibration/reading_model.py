"""A model in float32 that reads texts, in graphs that return more than the model's own do."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
from onnx_ir.passes.common import RemoveUnusedNodesPass

from edgespec.artifact import graph_io
from edgespec.device.device import Device
from edgespec_export.checkpoint.weights import Weights
from edgespec_export.components.attention.standard_attention import Standard
from edgespec_export.components.number_format import NumberFormat
from edgespec_export.families.family import Family
from edgespec_export.onnx_graph.external_data import WeightFile
from edgespec_export.onnx_graph.graph import Graph

__all__ = ["ReadingModel", "WholeGraph"]


class ReadingModel:
    """Runs the graphs of a model on texts.

    Args:
        folder: where float32 weights of the model are written; may be deleted afterwards.
        texts: token ids of the texts.
        plain: the model in float32; formats that are emitted have the same checkpoint.
    """

    def __init__(
        self,
        weights: Weights,
        family: Family,
        folder: Path,
        texts: Sequence[Sequence[int]],
        device: Device,
        plain: NumberFormat,
    ) -> None:
        self.family = family
        self._folder, self._texts, self._device = folder, texts, device
        self._plain = plain
        read = plain.transform_checkpoint(family.view(weights), family.residual_stream())
        self._file = WeightFile(folder / "weights.data", read)

    def emitted(self, name: str, number_format: NumberFormat) -> Graph:
        """A graph of the model, whose format may add outputs to it."""
        with self._file:
            graph = WholeGraph(name, self._file)
            self.family.emit(graph, number_format, Standard())
        return graph

    def inputs(self, graph: str, session: ort.InferenceSession) -> Iterator[dict[str, object]]:
        """The inputs of one call for each text."""
        crossed = self._encoded() if graph == graph_io.DECODER else iter(())
        for text in self._texts:
            given: dict[str, object] = {
                graph_io.TOKENS: np.array(self._decoder_text(graph, text), np.int64),
                graph_io.PAST_LENGTH: np.zeros(1, np.int64),
                graph_io.SKIP: np.zeros(1, np.int64),
                graph_io.STATE_STEPS: np.array([(0, 0, 0, 0, 0, len(text))], np.int64),
            }
            given |= next(crossed, {})
            for value in session.get_inputs():
                if value.name not in given:  # an empty cache
                    shape = [n if isinstance(n, int) else len(text) + 1 for n in value.shape]
                    given[value.name] = np.zeros(shape, np.float32)
            yield {value.name: given[value.name] for value in session.get_inputs()}

    def _decoder_text(self, graph: str, text: Sequence[int]) -> list[int]:
        """The tokens of a call; the decoder behind an encoder reads the encoder's text again."""
        start = self.family.start_token
        return [start, *text] if graph == graph_io.DECODER and start is not None else [*text]

    def _encoded(self) -> Iterator[dict[str, object]]:
        """The cross-attention's keys and values of each text, if there is an encoder."""
        if graph_io.ENCODER not in self.family.graphs:
            return
        layers = range(self.family.layers)
        names = [name for layer in layers for name in graph_io.cross_names(layer)]
        session = self.session(self.emitted(graph_io.ENCODER, self._plain), names)
        for text in self._texts:
            given = {graph_io.TOKENS: np.array(text, np.int64)}
            yield dict(zip(names, session.run(names, given), strict=True))

    def session(self, graph: Graph, outputs: Collection[str]) -> ort.InferenceSession:
        """A session of a graph that computes these outputs only."""
        model = graph.model()
        model.graph.outputs[:] = [v for v in model.graph.outputs if v.name in outputs]
        RemoveUnusedNodesPass()(model)
        for value in [v for v in model.graph.inputs if not v.uses()]:
            model.graph.inputs.remove(value)
        path = self._folder / f"{graph.name}.onnx"
        ir.save(model, path)
        options = ort.SessionOptions()
        options.intra_op_num_threads = self._device.threads or 0  # 0: the runtime's default
        options.log_severity_level = 4  # failures are raised; warnings are of no use to a user
        return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


class WholeGraph(Graph):
    """A graph that computes its branches in every call, so that it can output what they read."""

    def when(
        self, condition: ir.Value, value: ir.Value, change: Callable[[], ir.Value]
    ) -> ir.Value:
        return self.op.Where(condition, change(), value)
