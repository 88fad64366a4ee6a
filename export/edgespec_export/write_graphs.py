"""Writes the graphs of a model and the weights that they share."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import onnx_ir as ir

from edgespec.artifact.graph_io import DECODER
from edgespec.artifact.hosts import GPU, WEB
from edgespec.artifact.manifest import WEIGHTS
from edgespec.errors import EdgespecError
from edgespec_export.checkpoint.weights import Weights
from edgespec_export.components.attention.attention import Attention
from edgespec_export.components.number_format import NumberFormat
from edgespec_export.families import Family
from edgespec_export.onnx_graph.external_data import WeightFile
from edgespec_export.onnx_graph.graph import Graph
from edgespec_export.passes.device_operators import device_operators
from edgespec_export.passes.fuse_blocks import Fusion, fuse_blocks
from edgespec_export.passes.inline_functions import inline_functions
from edgespec_export.progress import Advance

__all__ = ["check_all_read", "write_graphs"]


def write_graphs(
    weights: Weights,
    family: Family,
    folder: Path,
    *,
    number_format: NumberFormat,
    attentions: Mapping[str, Attention],
    progress: Advance = lambda _: None,
    shard_bytes: int = sys.maxsize,
    host: str | None = None,
) -> dict[str, Fusion]:
    """Writes every graph of a model and the weights they share into `folder`.

    Returns:
        What was fused in each file, if the format has operators for whole blocks.

    Args:
        attentions: the attention of each decoder file, by the file's name.
        progress: called with the bytes of the checkpoint's tensors that were processed.
        shard_bytes: no file of weights becomes larger.
        host: what the graphs are for, see `edgespec.artifact.hosts`; nothing is fused for any.
    """
    models: dict[str, ir.Model] = {}
    decoders = [(DECODER, file, attention) for file, attention in attentions.items()]
    others = [(name, name, decoders[0][2]) for name in family.graphs if name != DECODER]
    fusions: dict[str, Fusion] = {}
    transformed = number_format.transform_checkpoint(family.view(weights), family.residual_stream())
    with WeightFile(folder / WEIGHTS, transformed, progress, shard_bytes) as weight_file:
        for name, file, attention in others + decoders:
            graph = Graph(name, weight_file, is_told_positions=host == GPU)
            family.emit(graph, number_format, attention)
            models[file] = graph.model()
            if host == GPU:
                device_operators(models[file], family.label)
            elif host == WEB:
                inline_functions(models[file])
            elif number_format.has_block_operators and graph.blocks:
                fusions[file] = fuse_blocks(models[file], graph.blocks)
        check_all_read(weight_file, family)
    number_format.say_rounding(family.label)
    for name, model in models.items():
        ir.save(model, folder / f"{name}.onnx")
    return fusions


def check_all_read(file: WeightFile, family: Family) -> None:
    """Refuses a tensor that no graph uses: it is a part of the model that the graphs lack.

    Biases of zeros are passed over: AutoGPTQ writes them where a model has none.
    """
    unread = [name for name in sorted(file.unread) if not family.redundant.fullmatch(name)]
    unread = [
        name for name in unread if not name.endswith(".bias") or file.checkpoint_tensor(name).any()
    ]
    if unread:
        raise EdgespecError(
            f"{family.label}: the checkpoint has {len(unread)} tensors that its config does not "
            f"account for, such as {unread[0]!r}; config.json belongs to another model"
        )
