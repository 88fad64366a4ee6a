"""Second moments of what the products of a model read, measured on texts.

The model runs in float32. Each call of a graph adds up the moments of some products only, so that
memory is bounded: those of all products of a large model would be larger than the model.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
import onnxruntime as ort
from onnx_ir.passes.common import RemoveUnusedNodesPass

from edgespec.artifact import graph_io
from edgespec.device.device import Device
from edgespec_export.checkpoint.weights import Weights
from edgespec_export.components.attention.standard_attention import Standard
from edgespec_export.families.family import Family
from edgespec_export.onnx_graph.external_data import WeightFile
from edgespec_export.onnx_graph.graph import Graph
from edgespec_export.quantization.recording import Recording, moments_name

__all__ = ["MOMENTS_BYTES", "Moments", "batches"]

MOMENTS_BYTES = 1 << 30  # of the moments that are in memory at once; one product's at least

Float = npt.NDArray[np.float32]
_log = logging.getLogger("edgespec")


class Moments:
    """The moments of each product of a model, computed when the first of a batch is asked for.

    Args:
        folder: where float32 weights of the model are written; may be deleted afterwards.
        texts: token ids of the texts.
        limit: bytes of the moments that are computed at once.
    """

    def __init__(
        self,
        weights: Weights,
        family: Family,
        folder: Path,
        texts: Sequence[Sequence[int]],
        device: Device,
        limit: int = MOMENTS_BYTES,
    ) -> None:
        self._family, self._folder, self._texts, self._device = family, folder, texts, device
        self._file = WeightFile(folder / "weights.data", family.view(weights))
        self._graph_of: dict[str, str] = {}
        self._batches: list[list[str]] = []
        with self._file:
            for graph in family.graphs:
                recording = Recording()
                family.emit(WholeGraph(graph, self._file), recording, Standard())
                self._batches += batches(recording.sizes, limit)
                self._graph_of |= dict.fromkeys(recording.sizes, graph)
        self._held: dict[str, Float] = {}

    def of(self, product: str) -> Float:
        """XᵀX [in, in] of a product's inputs, over all texts."""
        if product not in self._held:
            self._held = {}  # before the next are computed
            (batch,) = (batch for batch in self._batches if product in batch)
            self._held = self._measured(batch)
        return self._held[product]

    def _measured(self, batch: Sequence[str]) -> dict[str, Float]:
        graph = self._graph_of[batch[0]]
        done, count = self._batches.index(list(batch)) + 1, len(self._batches)
        _log.info("calibration %d of %d: %d products of the %s", done, count, len(batch), graph)
        session = self._session(graph, batch)
        sums: dict[str, Float] = {}
        for inputs in self._inputs(graph, session):
            results = session.run([moments_name(product) for product in batch], inputs)
            for product, result in zip(batch, results, strict=True):
                moments = np.asarray(result, np.float32)
                sums[product] = sums[product] + moments if product in sums else moments
        return sums

    def _inputs(self, graph: str, session: ort.InferenceSession) -> Iterator[dict[str, object]]:
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
        start = self._family.start_token
        return [start, *text] if graph == graph_io.DECODER and start is not None else [*text]

    def _encoded(self) -> Iterator[dict[str, object]]:
        """The cross-attention's keys and values of each text, if there is an encoder."""
        if graph_io.ENCODER not in self._family.graphs:
            return
        layers = range(self._family.layers)
        names = [name for layer in layers for name in graph_io.cross_names(layer)]
        session = self._session(graph_io.ENCODER, (), names)
        for text in self._texts:
            given = {graph_io.TOKENS: np.array(text, np.int64)}
            yield dict(zip(names, session.run(names, given), strict=True))

    def _session(
        self, name: str, wanted: Sequence[str], others: Sequence[str] = ()
    ) -> ort.InferenceSession:
        """A session of a graph that computes these products' moments, and these outputs."""
        outputs = {*map(moments_name, wanted), *others}
        with self._file:
            graph = WholeGraph(name, self._file)
            self._family.emit(graph, Recording(wanted), Standard())
        model = graph.model()
        kept = [value for value in model.graph.outputs if value.name in outputs]
        model.graph.outputs[:] = kept
        RemoveUnusedNodesPass()(model)
        for value in [v for v in model.graph.inputs if not v.uses()]:
            model.graph.inputs.remove(value)
        path = self._folder / f"{name}.onnx"
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


def batches(sizes: Mapping[str, int], limit: int) -> list[list[str]]:
    """Products in order, in batches of at most `limit` bytes, or of one product."""
    found: list[list[str]] = []
    room = 0
    for product, size in sizes.items():
        if not found or size > room:
            found.append([])
            room = limit
        found[-1].append(product)
        room -= size
    return found
