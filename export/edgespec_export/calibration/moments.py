"""Second moments of what the products of a model read, measured on texts.

The model runs in float32. Each call of a graph adds up the moments of some products only, so that
memory is bounded: those of all products of a large model would be larger than the model.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from edgespec.device.device import Device
from edgespec.errors import EdgespecError
from edgespec_export.calibration.reading_model import ReadingModel
from edgespec_export.checkpoint.weights import Weights
from edgespec_export.families.family import Family
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
        recording: makes the format that records them.
        limit: bytes of the moments that are computed at once.
    """

    def __init__(
        self,
        weights: Weights,
        family: Family,
        folder: Path,
        texts: Sequence[Sequence[int]],
        device: Device,
        recording: Callable[[], Recording] = Recording,
        limit: int = MOMENTS_BYTES,
    ) -> None:
        self._recording = recording()
        self._model = ReadingModel(weights, family, folder, texts, device, self._recording)
        self._graph_of: dict[str, str] = {}
        self._batches: list[list[str]] = []
        for graph in family.graphs:
            self._model.emitted(graph, self._recording)
            sizes, self._recording.sizes = self._recording.sizes, {}
            self._batches += batches(sizes, limit)
            self._graph_of |= dict.fromkeys(sizes, graph)
        self._held: dict[str, Float] = {}

    def of(self, product: str) -> Float:
        """XᵀX [in, in] of a product's inputs, over all texts.

        Raises:
            EdgespecError: they overflow float32.
        """
        if product not in self._held:
            self._held = {}  # before the next are computed
            (batch,) = (batch for batch in self._batches if product in batch)
            self._held = self._measured(batch)
        if not np.isfinite(self._held[product]).all():
            name = product.split("+")[0]
            raise EdgespecError(
                f"what {name!r} reads overflows; choose other texts, or --calibration none"
            )
        return self._held[product]

    def _measured(self, batch: Sequence[str]) -> dict[str, Float]:
        graph = self._graph_of[batch[0]]
        done, count = self._batches.index(list(batch)) + 1, len(self._batches)
        _log.info("calibration %d of %d: %d products of the %s", done, count, len(batch), graph)
        names = [moments_name(product) for product in batch]
        self._recording.wanted = batch
        session = self._model.session(self._model.emitted(graph, self._recording), names)
        sums: dict[str, Float] = {}
        for inputs in self._model.inputs(graph, session):
            results = session.run(names, inputs)
            for product, result in zip(batch, results, strict=True):
                moments = np.asarray(result, np.float32)
                sums[product] = sums[product] + moments if product in sums else moments
        return sums


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
