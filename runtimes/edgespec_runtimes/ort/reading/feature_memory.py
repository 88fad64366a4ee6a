"""Memory for the hidden states that a target shows a draft that reads them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from edgespec.artifact import graph_io
from edgespec.artifact.manifest import Exported
from edgespec.errors import EdgespecError
from edgespec_runtimes.ort.cache_memory import lazy_zeros, memory_errors
from edgespec_runtimes.ort.decoder_graph import DecoderGraph

__all__ = ["feature_memory"]


def feature_memory(
    exported: Exported, graph: DecoderGraph, file: str, capacity: int
) -> npt.NDArray[np.float32] | None:
    """Zeros [capacity, F] for what a target returns for an EAGLE head; None for other models.

    Args:
        file: of the graph, for people.

    Raises:
        EdgespecError: the graph returns another width than the manifest says.
        UsageError: there is no memory.
    """
    width = graph.state_widths.get(graph_io.FEATURES, 0)
    shows_source = exported.is_encoder_decoder and not width  # what it shows is its encoder's
    if exported.is_eagle_head or shows_source:
        return None
    if width != exported.features:
        raise EdgespecError(
            f"{file} returns {width} features of each position and the "
            f"manifest says {exported.features}; export the pair again"
        )
    if not width:
        return None
    with memory_errors(capacity):
        return lazy_zeros((capacity, width), np.float32)
