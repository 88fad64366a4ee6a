"""Writes the graphs of a model whose shapes are fixed, for NPUs: a graph for each kind of call."""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from edgespec.artifact.graph_io import DECODER, ENCODER, LOGITS, PAST_LENGTH, TOKENS
from edgespec.artifact.manifest import WEIGHTS
from edgespec.artifact.static_calls import (
    PROMPT,
    SOURCE_LENGTH,
    StaticCalls,
    call_name,
    host_name,
)
from edgespec_export.checkpoint.weights import Weights
from edgespec_export.components.attention.choose_attention import attention_for
from edgespec_export.components.attention.static_attention import StaticAttention
from edgespec_export.components.number_format import NumberFormat
from edgespec_export.families import Family
from edgespec_export.onnx_graph.external_data import WeightFile
from edgespec_export.onnx_graph.graph import FixedCall, Graph
from edgespec_export.passes.inline_functions import inline_functions
from edgespec_export.passes.split_host import split_host
from edgespec_export.passes.standard_operators import to_standard_operators
from edgespec_export.progress import Advance
from edgespec_export.write_graphs import check_all_read

__all__ = ["write_static_graphs"]


def write_static_graphs(
    weights: Weights,
    family: Family,
    folder: Path,
    *,
    number_format: NumberFormat,
    calls: StaticCalls,
    progress: Advance = lambda _: None,
) -> dict[str, str]:
    """Writes all graphs of a model, and the weights they share, into `folder`.

    An encoder keeps shapes that are not fixed: it runs once for each source, on the processor.

    Returns:
        The file of each graph in `folder`, without its suffix.

    Raises:
        EdgespecError: the model has parts that NPUs do not take.
    """
    models: dict[str, ir.Model] = {}
    transformed = number_format.transform_checkpoint(family.view(weights), family.residual_stream())
    with WeightFile(folder / WEIGHTS, transformed, progress) as weight_file:
        if ENCODER in family.graphs:
            graph = Graph(ENCODER, weight_file)
            family.emit(graph, number_format, attention_for(family.heads))
            models[ENCODER] = graph.model()
        for name, rows in calls.graphs.items():
            call = FixedCall(rows, calls.capacity, calls.source)
            graph = Graph(DECODER, weight_file, fixed=call)
            family.emit(graph, number_format, StaticAttention(call, family.label))
            parts = _on_device_and_host(graph.model(), family.label, logits=name != PROMPT)
            models[name], models[host_name(name)] = parts
        check_all_read(weight_file, family)
    number_format.say_rounding(family.label)
    for name, model in models.items():
        ir.save(model, folder / f"{name}.onnx")
    return {**{name: name for name in models}, DECODER: call_name(calls.widest)}


def _on_device_and_host(model: ir.Model, label: str, *, logits: bool) -> tuple[ir.Model, ir.Model]:
    """The graphs of a call on a device and before it on the host, from one with fixed shapes."""
    if not logits:
        model.graph.outputs[:] = [v for v in model.graph.outputs if v.name != LOGITS]
        RemoveUnusedNodesPass()(model)
    inline_functions(model)
    of_device, of_host = split_host(model, {PAST_LENGTH, SOURCE_LENGTH}, {TOKENS})
    to_standard_operators(of_device, label)
    return of_device, of_host
