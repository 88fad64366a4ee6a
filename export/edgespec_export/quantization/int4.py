"""Weights in 4 bits and activations in 8 bits, both in groups of 32."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgespec_export.components.output_head import OutputHead
from edgespec_export.onnx_graph.graph import Graph
from edgespec_export.operators.grouped_rows import GROUP
from edgespec_export.operators.int4_ops import INT4_MATMUL, RMS_NORM_INT4_MATMUL
from edgespec_export.quantization.gptq import (
    Rounded,
    float16_grids,
    joined,
    rounded,
)
from edgespec_export.quantization.grouped import Grouped, finite_tensor
from edgespec_export.quantization.int8_tables import (
    embedding_of_unrotated,
    head_of_unrotated,
)
from edgespec_export.quantization.source_grid import OnGrid, on_grid

__all__ = ["Int4"]

Float = npt.NDArray[np.float32]

logger = logging.getLogger("edgespec")


class Int4(Grouped):
    """Weights in 4 bits, each `GROUP` inputs of an output with a scale and a minimum.

    A matrix that is on such a grid already, as those of GGUF's Q4_0 and Q4_1, of MLX, GPTQ and AWQ
    are, keeps its codes and scales, and its weights where float16 has the minimums. Tables are in
    int8, Hadamard-rotated.

    Args:
        moments: XᵀX [in, in] of what a product reads, by the names of its matrices joined by "+";
            errors of rounding are then taken up by other weights. None rounds each weight to the
            nearest.
    """

    name = "int4"
    product = INT4_MATMUL
    normed_product = RMS_NORM_INT4_MATMUL

    def __init__(self, moments: Callable[[str], Float] | None = None) -> None:
        super().__init__()
        self._moments = moments
        self._matrices = 0
        self._kept: Counter[bool] = Counter()  # matrices on a grid, by whether they are exact

    def table(self, g: Graph, tokens: ir.Value, name: str) -> ir.Value:
        return embedding_of_unrotated(g, tokens, name)

    def head(self, g: Graph, x: ir.Value, head: OutputHead) -> ir.Value:
        return head_of_unrotated(g, x, head)

    def weights(self, g: Graph, names: Sequence[str]) -> tuple[ir.Value, ir.Value, ir.Value]:
        """Codes, scales and minimums of matrices, one below the other."""
        name = "+".join(names)
        made = cache(lambda: self._rounded(g, names))
        return (
            g.stored(f"{name}.int4", lambda: made().codes),
            g.stored(f"{name}.int4.scale", lambda: made().scale),
            g.stored(f"{name}.int4.minimum", lambda: made().minimum),
        )

    def say_rounding(self, label: str) -> None:
        kept, moved = self._kept[True], self._kept[False]
        if kept + moved:
            others = f", {moved} with minimums as float16 has them" if moved else ""
            logger.info(
                "%s: int4 keeps the codes and scales of %d of %d matrices, which are in 4 bits "
                "already%s",
                *(label, kept + moved, self._matrices, others),
            )

    def _rounded(self, g: Graph, names: Sequence[str]) -> Rounded:
        """Matrices one below the other; those on a grid already keep it."""
        matrices = [finite_tensor(g, name) for name in names]
        grids = [on_grid(matrix, GROUP) for matrix in matrices]
        self._matrices += len(grids)
        self._kept.update(grid.is_exact for grid in grids if grid is not None)
        others = [matrix for matrix, grid in zip(matrices, grids, strict=True) if grid is None]
        if not others:
            return joined([grid.rounded for grid in grids if grid is not None])
        moments = self._moments("+".join(names)) if self._moments else None
        anew = rounded(np.concatenate(others), moments, GROUP, float16_grids)
        return _in_order(grids, [len(matrix) for matrix in matrices], anew)


def _in_order(grids: Sequence[OnGrid | None], rows: Sequence[int], anew: Rounded) -> Rounded:
    """Matrices one below the other, those without a grid from `anew`, which has their rows."""
    parts, start = [], 0
    for grid, count in zip(grids, rows, strict=True):
        if grid is not None:
            parts.append(grid.rounded)
            continue
        at = slice(start, start + count)
        parts.append(Rounded(anew.codes[at], anew.scale[at], anew.minimum[at]))
        start += count
    return joined(parts)
