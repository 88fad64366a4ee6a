"""Gated delta rule in the place of attention (Qwen3.5): a state instead of keys and values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgespec.artifact import graph_io
from edgespec_export.components.attention.heads import normed_heads
from edgespec_export.components.blocks.block import EmitContext
from edgespec_export.components.norms.norm import RmsNorm
from edgespec_export.onnx_graph.graph import Graph
from edgespec_export.operators.activations import SILU_GATE
from edgespec_export.operators.delta_ops import GATED_DELTA

__all__ = ["DeltaHeads", "GatedDelta"]

KERNELS = "0.11"  # the first release that has this operator


@dataclass(frozen=True)
class DeltaHeads:
    """The heads of a delta rule.

    Attributes:
        k_count: heads of queries and of keys.
        v_count: heads of values and states; a multiple of `k_count`.
        key_size, value_size: numbers of a head.
        taps: positions of the convolution before it, the own included.
    """

    k_count: int
    v_count: int
    key_size: int
    value_size: int
    taps: int

    @property
    def v_width(self) -> int:
        return self.v_count * self.value_size

    @property
    def channels(self) -> int:
        """Queries, keys and values of a position."""
        return 2 * self.k_count * self.key_size + self.v_width

    @property
    def row(self) -> int:
        """Numbers that a layer keeps of a recent position."""
        return self.channels + 2 * self.v_count

    @property
    def state(self) -> int:
        """Numbers of a state, with the convolution's inputs at the positions before."""
        heads = self.v_count * self.key_size * self.value_size
        return heads + (self.taps - 1) * self.channels


@dataclass(frozen=True)
class GatedDelta:
    """The middle of a block, from four inputs in this order: the gate of its result [m, v_width];
    queries, keys and values [m, channels]; how much each head writes, and forgets, [m, v_count].

    Attributes:
        layer: counts the model's recurrent layers.
        convolution: name of its factors in the checkpoint, [channels, 1, taps].
        decay: name of ln(-decay) [v_count].
        forget_bias: name of what is added to how much a head forgets, [v_count].
        norm: of each head of the result.
    """

    layer: int
    heads: DeltaHeads
    convolution: str
    decay: str
    forget_bias: str
    norm: RmsNorm

    @property
    def widths(self) -> tuple[int, ...]:
        heads = self.heads
        return (heads.v_width, heads.channels, heads.v_count, heads.v_count)

    def emit(self, g: Graph, inputs: Sequence[ir.Value], context: EmitContext) -> ir.Value:
        gate, *rows = inputs
        assert context.positions is not None, "an encoder has no states"
        positions = context.positions
        assert positions.states is not None, "a recurrent layer needs states"
        slots: list[int | str] = [1, 1]
        if context.attention.supports_layouts:
            g.metadata[graph_io.LAYOUTS_SINCE] = KERNELS
            slots = ["slots", "sequences"]
        heads = self.heads
        state, recent = graph_io.state_names(self.layer), graph_io.recent_rows_names(self.layer)
        shapes = [[slots[0], heads.state], [slots[1], graph_io.RECENT_ROWS, heads.row]]
        names = (state, recent)
        past = [
            g.input(name, np.float32, shape) for (name, _), shape in zip(names, shapes, strict=True)
        ]
        y, *present = g.call(
            GATED_DELTA,
            *rows,
            *self._factors(g),
            *past,
            positions.states,
            positions.past,
            positions.layouts,
            k_heads=heads.k_count,
            v_heads=heads.v_count,
            key_size=heads.key_size,
            value_size=heads.value_size,
        )
        for (_, name), value, shape in zip(names, present, shapes, strict=True):
            g.output(name, value, np.float32, shape)
        y = normed_heads(g, y, self.norm, heads.value_size)
        (y,) = g.call(SILU_GATE, gate, y)
        return y

    def _factors(self, g: Graph) -> list[ir.Value]:
        """The convolution [taps, channels], decay and bias [v_count] each."""
        read = g.weights.checkpoint_tensor

        def convolution() -> npt.NDArray[np.float32]:
            return np.ascontiguousarray(read(self.convolution)[:, 0].T)

        def decay() -> npt.NDArray[np.float32]:
            return np.asarray(-np.exp(read(self.decay).astype(np.float64)), np.float32)

        return [
            g.stored(f"{self.convolution}.by_tap", convolution),
            g.stored(f"{self.decay}.negative_exp", decay),
            g.stored(self.forget_bias, partial(read, self.forget_bias)),
        ]
