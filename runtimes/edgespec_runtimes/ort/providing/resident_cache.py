"""A cache in the memory of a provider's device, so that no call copies keys and values."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnxruntime as ort

from edgespec.artifact.graph_io import KEY_POSITIONS, Buffer
from edgespec.errors import EdgespecError, one_line
from edgespec_runtimes.ort.cache_memory import CacheMemory
from edgespec_runtimes.ort.decoder_graph import DecoderGraph
from edgespec_runtimes.ort.providing.sample_call import sample_inputs

__all__ = ["resident_cache"]


def resident_cache(
    graph: DecoderGraph, cache: CacheMemory, positions: int
) -> Mapping[Buffer, ort.OrtValue] | None:
    """The buffers of a cache in the memory of the device that runs a graph; None where the provider
    uses the host's.

    A first call copies the zeros of `cache` there: no runtime lets Python fill memory of every
    device in another way. Its one position is overwritten by the first call that is asked for.

    Args:
        positions: that the cache holds.

    Raises:
        EdgespecError: the device has too little memory, or the call fails.
    """
    if graph.memory is None:
        return None
    binding = graph.session.io_binding()
    arrays = {buffer.past: array for buffer, array in cache.arrays.items()}
    inputs = {**sample_inputs(graph.session, positions), **arrays}
    if KEY_POSITIONS in inputs:
        inputs[KEY_POSITIONS] = np.arange(positions, dtype=np.int32)
    for name, array in inputs.items():
        binding.bind_cpu_input(name, array)
    names = [value.name for value in graph.session.get_outputs()]
    ours = {buffer.present: buffer for buffer in cache.arrays}
    for name in names:
        binding.bind_output(name, graph.memory if name in ours else "cpu")
    try:
        graph.session.run_with_iobinding(binding)
    except Exception as error:
        raise EdgespecError(
            f"a cache of {positions} positions cannot be made in the memory of "
            f"{graph.provider} ({one_line(error)}); give less capacity, or take another provider "
            "(cpu)"
        ) from None
    values = dict(zip(names, binding.get_outputs(), strict=True))
    return {buffer: values[name] for name, buffer in ours.items()}
