"""The graph that says which part of a sound each token of a text is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from edgespec.artifact import graph_io
from edgespec.device.device import Device
from edgespec_runtimes.ort.session import open_session

__all__ = ["OrtAlignment"]


class OrtAlignment:
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
