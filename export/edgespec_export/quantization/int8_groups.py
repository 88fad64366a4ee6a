"""Weights and activations in 8 bits, both in groups of 32: the weights of a GGUF file in Q8_0."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgespec_export.onnx_graph.graph import Graph
from edgespec_export.operators.grouped_rows import GROUP
from edgespec_export.operators.int8_group_ops import (
    INT8_GROUP_EMBEDDING,
    INT8_GROUP_MATMUL,
    RMS_NORM_INT8_GROUP_MATMUL,
    ZERO_POINT,
)
from edgespec_export.quantization.codes_and_scales import CodesAndScales
from edgespec_export.quantization.grouped import Grouped, finite_rows, sizes

__all__ = ["Int8Groups", "rounded_in_groups"]


class Int8Groups(Grouped):
    """Weights in 8 bits, each `GROUP` inputs of an output with a float16 scale.

    Matrices, the embedding and the head that are rounded so already, as GGUF's Q8_0 are, keep their
    weights exactly: the scale maps a group's largest weight to ±127, which finds theirs again.
    """

    name = "int8-groups"
    product = INT8_GROUP_MATMUL
    normed_product = RMS_NORM_INT8_GROUP_MATMUL

    def table(self, g: Graph, tokens: ir.Value, name: str) -> ir.Value:
        if g.weights.shape(name)[1] % GROUP:
            return g.op.Gather(g.weight(name), tokens, axis=0)
        (rows,) = g.call(INT8_GROUP_EMBEDDING, tokens, *self.weights(g, [name]))
        return rows

    def weights(self, g: Graph, names: Sequence[str]) -> tuple[ir.Value, ir.Value]:
        """Codes and scales of matrices, one below the other."""
        name = "+".join(names)
        size = sizes(g, names)
        rounded = CodesAndScales(
            (size["n"], size["k"] // GROUP, GROUP),
            np.uint8,
            lambda: (rounded_in_groups(rows) for name in names for rows in finite_rows(g, name)),
        )
        return (
            g.stored(f"{name}.int8-groups", rounded.codes),
            g.stored(f"{name}.int8-groups.scale", rounded.scales),
        )


def rounded_in_groups(
    matrix: npt.NDArray[np.float32],
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float16]]:
    """A matrix [out, in] as codes [out, groups, GROUP] and scales [out, groups].

    A weight is (code − ZERO_POINT) · scale. The scale is a group's largest weight over 127, as
    float16 has it.
    """
    groups = matrix.reshape(len(matrix), -1, GROUP)
    scale = (np.abs(groups).max(axis=2) / np.float32(127)).astype(np.float16)
    step = np.where(scale == 0, 1, scale).astype(np.float32)
    whole = np.rint(groups / step[:, :, None]).clip(-127, 127)
    return (whole + ZERO_POINT).astype(np.uint8), scale
