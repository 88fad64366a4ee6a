"""A gated convolution over the last few positions, as ONNX functions.

    y = after · Σᵢ factorᵢ · (before · x)[position − i]

`before`, `after` and x are [m, width]. What a convolution reads of earlier positions lies in the
cache, position by position, in the keys and values of as many layers as its `width` numbers fill
(components/blocks/short_convolution.py). `convolved` is the arithmetic, of the functions here and
of graphs for which there is no function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from edgespec_export.onnx_graph.functions import Body, Function
from edgespec_export.onnx_graph.nodes import Nodes
from edgespec_export.onnx_graph.operator_parts import CONVOLUTION_CACHES
from edgespec_export.operators.attention.cached_attention import none_of
from edgespec_export.operators.attention.narrow_cache import rounded_to_int8

__all__ = ["SHORT_CONVOLUTION", "convolved"]

# Writes rows [1, kv_heads, m, size] into the buffer with a number, and returns those at slots [n]
# in float32.
Gathered = Callable[[int, ir.Value, ir.Value], ir.Value]


def convolved(
    n: Nodes,
    inputs: Sequence[ir.Value],
    factors: Sequence[ir.Value],
    queries: ir.Value,
    *,
    part: ir.Value,
    buffers: int,
    gathered: Gathered,
    bias: ir.Value | None = None,
) -> ir.Value:
    """The convolution of rows, [m, width].

    Args:
        inputs: before, after, x.
        factors: of each tap, [width]; the first is that of the position itself.
        queries: int64 [m], the position of each row.
        part: int64 [2], key heads and their size: a buffer's numbers of a position.
        buffers: how many buffers the numbers of a position fill.
        bias: added to the sum, [width].
    """
    before, after, x = inputs
    kept = n.op.Mul(before, x)
    count = len(factors) - 1
    rows = n.op.Sub(n.op.Unsqueeze(queries, n.ints(1)), n.ints(*range(1, count + 1)))
    slots = n.op.Reshape(rows, n.ints(-1))  # [m · count]
    in_cache = n.op.GreaterOrEqual(slots, n.constant(0, np.int64))
    slots = n.op.Max(slots, n.constant(0, np.int64))
    parts = [
        gathered(number, new, slots) for number, new in enumerate(_parts(n, kept, part, buffers))
    ]  # each [1, kv_heads, m · count, size]
    held = n.op.Flatten(n.op.Transpose(n.op.Concat(*parts, axis=0), perm=[2, 0, 1, 3]), axis=1)
    width = n.op.Shape(x, start=1)
    held = n.op.Slice(held, n.ints(0), width, n.ints(1))
    held = n.op.Where(n.op.Unsqueeze(in_cache, n.ints(1)), held, n.constant(0, np.float32))
    earlier = n.op.Reshape(held, n.op.Concat(n.ints(-1, count), width, axis=0))
    # One product and sum after the other: each row has the same bits in any call.
    total = n.op.Mul(kept, factors[0])
    for steps, factor in enumerate(factors[1:]):
        rows = n.op.Gather(earlier, n.constant(steps, np.int64), axis=1)
        total = n.op.Add(total, n.op.Mul(rows, factor))
    if bias is not None:
        total = n.op.Add(total, bias)
    return n.op.Mul(after, total)


def _parts(n: Nodes, kept: ir.Value, part: ir.Value, count: int) -> Sequence[ir.Value]:
    """Rows [m, width] as the rows of `count` buffers, [1, kv_heads, m, size] each; zeros fill the
    rest of the last one."""
    whole = n.op.Mul(n.op.ReduceProd(part, keepdims=1), n.ints(count))
    missing = n.op.Sub(whole, n.op.Shape(kept, start=1))
    pads = n.op.Concat(n.ints(0), missing, axis=0)
    kept = n.op.Pad(kept, pads, None, n.ints(1))
    shape = n.op.Concat(n.ints(-1, count), part, axis=0)
    rows = n.op.Transpose(n.op.Reshape(kept, shape), perm=[1, 2, 0, 3])
    return [n.op.Slice(rows, n.ints(index), n.ints(index + 1), n.ints(0)) for index in range(count)]


def _short_convolution(cache: str) -> Callable[..., Sequence[ir.Value]]:
    """The body over a cache of this name (`CONVOLUTION_CACHES`). It supports no layouts: it fails
    where there are any."""
    names = [tensor.name for tensor in CONVOLUTION_CACHES[cache].inputs]
    stored = [name for name in names if not name.endswith("_scale")]

    def emit(
        f: Body, before: ir.Value, after: ir.Value, x: ir.Value, **given: ir.Value
    ) -> Sequence[ir.Value]:
        last = f.op.Concat(given["last"], none_of(f, given["layouts"]), axis=0)
        end = f.op.Add(f.op.Cast(last, to=ir.DataType.INT64), f.ints(1))
        first = f.op.Sub(end, f.op.Shape(x, end=1))
        scalar = f.constant([], np.int64)
        start, stop = (f.op.Reshape(position, scalar) for position in (first, end))
        present: dict[str, ir.Value] = {}

        def written(name: str, rows: ir.Value) -> ir.Value:
            present[name] = f.op.TensorScatter(given[name], rows, first, axis=2)
            return present[name]

        def gathered(number: int, rows: ir.Value, slots: ir.Value) -> ir.Value:
            name = stored[number]
            if f"{name}_scale" in given:
                codes, scales = rounded_to_int8(f, rows)
                codes = f.op.Gather(written(name, codes), slots, axis=2)
                scales = f.op.Gather(written(f"{name}_scale", scales), slots, axis=2)
                return f.op.Mul(f.op.Cast(codes, to=ir.DataType.FLOAT), scales)
            if "Float16" in cache:
                narrow = written(name, f.op.Cast(rows, to=ir.DataType.FLOAT16))
                return f.op.Cast(f.op.Gather(narrow, slots, axis=2), to=ir.DataType.FLOAT)
            return f.op.Gather(written(name, rows), slots, axis=2)

        y = convolved(
            f,
            (before, after, x),
            [
                f.op.Gather(given["factors"], f.constant(tap, np.int64), axis=0)
                for tap in range(f.shared_count("taps"))
            ],
            f.op.Range(start, stop, f.constant(1, np.int64)),
            part=f.op.Gather(f.op.Shape(given["past_key"]), f.ints(1, 3)),
            buffers=len(stored),
            gathered=gathered,
        )
        return [y, *(present[name] for name in names)]

    return emit


# By the number of layers that the kept numbers fill, and by the format of the cache.
_LAYERS = {1: "", 2: "TwoLayer"}
_FORMATS = {"fp32": "", "fp16": "Float16Cache", "int8": "Int8Cache"}
SHORT_CONVOLUTION = {
    (layers, cache): Function(
        f"{start}{name}ShortConvolution", _short_convolution(f"{start}{name}")
    )
    for layers, start in _LAYERS.items()
    for cache, name in _FORMATS.items()
}
