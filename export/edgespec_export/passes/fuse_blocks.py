"""A pass that replaces each block of a layer, from the norm to the addition, by one operator.

A kernel for each operator of a block would start the session's threads and wait for them; a kernel
for the whole block does so once (docs/decisions/0018-kernels.md). The gated feed-forward block of
a Llama, as its int8 graph has it before and after the pass:

    x ─┬─ RMSNormInt8MatMul ─ Split ═ SiluGate ─ HadamardInt8MatMul ─ Add ─ y
       └───────────────────────────────────────────────────────────────┘
          opening             split   inner      closing              add

    x ─── SiluFeedForwardBlock ─ y

Where a model has a norm after its blocks, `RMSNorm` stands between `closing` and `add`. Where its
queries, keys and values have biases, `Sum` adds them before the split.

Components declare their blocks when they emit them (`Graph.block`). The pass looks for the operator
in the middle (`FUSED_BLOCKS` has one entry for each, in each format) and checks the operators
around it. A block with other operators stays as it is: a bias or an activation that no fused block
has, or a width that cannot be rotated. `Fusion` says why; the export logs it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from edgespec_export.onnx_graph.functions import DOMAIN, Body, Function
from edgespec_export.onnx_graph.graph import DeclaredBlock
from edgespec_export.onnx_graph.operator_parts import CLOSING, POST_NORM_NAMES
from edgespec_export.onnx_graph.operator_table import WITH_POST_NORM, WITH_PROJECTION_BIAS
from edgespec_export.operators.activations import GELU_GATE, RELU, SILU_GATE
from edgespec_export.operators.attention.attention_ops import SOURCE_ATTENTION
from edgespec_export.operators.attention.self_attention_ops import SELF_ATTENTION
from edgespec_export.operators.convolution_ops import SHORT_CONVOLUTION
from edgespec_export.operators.half_ops import (
    BFLOAT16_ROW_MATMUL,
    RMS_NORM_BFLOAT16_ROW_MATMUL,
)
from edgespec_export.operators.int4_int8_ops import (
    HADAMARD_INT4_INT8_MATMUL,
    INT4_INT8_MATMUL,
    RMS_NORM_HADAMARD_INT4_INT8_MATMUL,
    RMS_NORM_INT4_INT8_MATMUL,
)
from edgespec_export.operators.int4_ops import INT4_MATMUL, RMS_NORM_INT4_MATMUL
from edgespec_export.operators.int8_group_ops import (
    INT8_GROUP_MATMUL,
    RMS_NORM_INT8_GROUP_MATMUL,
)
from edgespec_export.operators.int8_ops import (
    HADAMARD_INT8_MATMUL,
    INT8_MATMUL,
    RMS_NORM_HADAMARD_INT8_MATMUL,
    RMS_NORM_INT8_MATMUL,
)
from edgespec_export.operators.norm_ops import RMS_NORM

__all__ = ["FUSED_BLOCKS", "FusedBlock", "Fusion", "fuse_blocks"]


@dataclass(frozen=True)
class FusedBlock:
    """How the blocks of one format with one inner operator are fused.

    A block is x + closing(inner(opening(norm of x))), or x + the norm of what closing makes.

    Attributes:
        whole: the function that computes the block.
        columns: how many inputs of the inner function are columns of the opening product.
        post_norm: of what closing makes; None if there is none.
        has_bias: a bias is added to what opening makes.
    """

    whole: Function
    columns: int
    opening: Function
    inner: Function
    closing: Function
    post_norm: Function | None
    has_bias: bool = False

    @property
    def added(self) -> Function:
        """The function whose result is added to the block's input."""
        return self.post_norm or self.closing


def _fused_block(
    name: str,
    columns: int,
    opening: Function,
    inner: Function,
    closing: Function,
    post_norm: Function | None,
    *,
    has_bias: bool = False,
) -> FusedBlock:
    def emit(f: Body, **given: ir.Value) -> Sequence[ir.Value]:
        (y,) = f.call(opening, *(given[name] for name in opening.inputs))
        if has_bias:
            y = f.op.Sum(y, given["projection_bias"])
        parts = f.columns(y, f.shape("widths"), columns) if columns > 1 else [y]
        y, *others = f.call(inner, *parts, *(given[name] for name in inner.inputs[columns:]))
        closing_weights = (given[f"closing_{name}"] for name in closing.inputs[1:])
        (y,) = f.call(closing, y, *closing_weights, renamed=CLOSING)
        if post_norm:
            (y,) = f.call(post_norm, y, given["post_norm"], renamed=POST_NORM_NAMES)
        return [f.op.Add(given["x"], y), *others]

    whole = Function(name, emit)
    return FusedBlock(whole, columns, opening, inner, closing, post_norm, has_bias)


@dataclass(frozen=True)
class _Format:
    """The products of one format of weights.

    Attributes:
        blocks: the start of its blocks' names.
        opening_before_post_norm: in a block with a norm after it, whose input is not rotated.
        after_products: of a feed-forward's activations and of a convolution's rows.
    """

    blocks: str
    opening: Function
    opening_before_post_norm: Function
    after_attention: Function
    after_products: Function

    def fused(self) -> Iterator[FusedBlock]:
        for start, by_cache in SELF_ATTENTION.items():
            for inner in by_cache.values():
                yield self._block(f"{inner.name}Block", 3, inner, self.after_attention)
                if start in WITH_PROJECTION_BIAS:
                    yield self._biased_attention_block(inner)
                if start in WITH_POST_NORM:
                    name = f"{inner.name}PostNormBlock"
                    yield self._post_norm_block(name, 3, inner, self.after_attention)
        for inner in SHORT_CONVOLUTION.values():
            yield self._block(f"{inner.name}Block", 3, inner, self.after_products)
            name = f"{inner.name}PostNormBlock"
            yield self._post_norm_block(name, 3, inner, self.after_products)
        yield self._block("CrossRowAttentionBlock", 1, SOURCE_ATTENTION, self.after_attention)
        for name, columns, inner in (
            ("SiluFeedForwardBlock", 2, SILU_GATE),
            ("GeluFeedForwardBlock", 2, GELU_GATE),
            ("ReluFeedForwardBlock", 1, RELU),
        ):
            yield self._block(name, columns, inner, self.after_products)
        for name, inner in (
            ("SiluFeedForwardPostNormBlock", SILU_GATE),
            ("GeluFeedForwardPostNormBlock", GELU_GATE),
        ):
            yield self._post_norm_block(name, 2, inner, self.after_products)

    def _block(self, name: str, columns: int, inner: Function, closing: Function) -> FusedBlock:
        whole = f"{self.blocks}{name}"
        return _fused_block(whole, columns, self.opening, inner, closing, None)

    def _biased_attention_block(self, inner: Function) -> FusedBlock:
        name, closing = f"{self.blocks}{inner.name}ProjectionBiasBlock", self.after_attention
        return _fused_block(name, 3, self.opening, inner, closing, None, has_bias=True)

    def _post_norm_block(
        self, name: str, columns: int, inner: Function, closing: Function
    ) -> FusedBlock:
        whole, opening = f"{self.blocks}{name}", self.opening_before_post_norm
        return _fused_block(whole, columns, opening, inner, closing, RMS_NORM)


_FORMATS = (
    _Format(
        "",
        RMS_NORM_INT8_MATMUL,
        RMS_NORM_HADAMARD_INT8_MATMUL,
        INT8_MATMUL,
        HADAMARD_INT8_MATMUL,
    ),
    _Format("Int4", RMS_NORM_INT4_MATMUL, RMS_NORM_INT4_MATMUL, INT4_MATMUL, INT4_MATMUL),
    _Format(
        "Int4Int8",
        RMS_NORM_INT4_INT8_MATMUL,
        RMS_NORM_HADAMARD_INT4_INT8_MATMUL,
        INT4_INT8_MATMUL,
        HADAMARD_INT4_INT8_MATMUL,
    ),
    _Format(
        "Int8Group",
        RMS_NORM_INT8_GROUP_MATMUL,
        RMS_NORM_INT8_GROUP_MATMUL,
        INT8_GROUP_MATMUL,
        INT8_GROUP_MATMUL,
    ),
    _Format(
        "BFloat16Row",
        RMS_NORM_BFLOAT16_ROW_MATMUL,
        RMS_NORM_BFLOAT16_ROW_MATMUL,
        BFLOAT16_ROW_MATMUL,
        BFLOAT16_ROW_MATMUL,
    ),
)
FUSED_BLOCKS = tuple(block for number_format in _FORMATS for block in number_format.fused())


def fuse_blocks(model: ir.Model, blocks: Sequence[DeclaredBlock]) -> Fusion:
    """Replaces each declared block by one operator, where there is one that computes it."""
    obstacles = {}
    for block in blocks:
        parts = _parts(block)
        if isinstance(parts, str):
            obstacles[block.name] = parts
        else:
            _replace(model, parts)
    return Fusion(len(blocks) - len(obstacles), obstacles)


@dataclass(frozen=True)
class Fusion:
    """What `fuse_blocks` did.

    Attributes:
        fused: blocks that are one operator now.
        obstacles: the other blocks by name, each with the reason.
    """

    fused: int
    obstacles: Mapping[str, str]

    def __str__(self) -> str:
        """One line; the blocks of all layers are one entry: "model.layers.*.mlp"."""
        blocks = Counter((_in_any_layer(name), reason) for name, reason in self.obstacles.items())
        separate = "".join(
            f"; {name} ({_blocks(count)}) not fused: {reason}"
            for (name, reason), count in blocks.items()
        )
        return f"{self.fused} of {self.fused + len(self.obstacles)} blocks fused{separate}"


def _blocks(count: int) -> str:
    return "1 block" if count == 1 else f"{count} blocks"


def _in_any_layer(name: str) -> str:
    """A block's name with * for the index of its layer, which is the first number in it."""
    return re.sub(r"\b\d+\b", "*", name, count=1)


@dataclass(frozen=True)
class _Parts:
    """The nodes that one operator replaces.

    Attributes:
        bias: the addition to what `opening` makes; None if there is none.
        split: None if `inner` has one input from the opening product.
        post_norm: None if the block has none.
    """

    fused: FusedBlock
    opening: ir.Node
    bias: ir.Node | None
    split: ir.Node | None
    inner: ir.Node
    closing: ir.Node
    post_norm: ir.Node | None
    add: ir.Node


def _parts(block: DeclaredBlock) -> _Parts | str:
    """The parts of a declared block, or the reason why they are not those of a fused one."""
    inner = next((node for node in block.nodes if _blocks_around(node)), None)
    if inner is None:
        return "no operator computes a whole block with this attention or activation"
    candidates = _blocks_around(inner)
    columns = candidates[0].columns  # the same in each format
    split = _maker(inner.inputs[:columns], ["Split"]) if columns > 1 else None
    opened = [split.inputs[0]] if split else inner.inputs[:columns]
    bias = _maker(opened, ["Sum"]) if any(fused.has_bias for fused in candidates) else None
    opened = [bias.inputs[0]] if bias else opened
    openings = dict.fromkeys(fused.opening.name for fused in candidates)
    opening = _maker(opened, openings)
    if opening is None:
        return f"before {inner.op_type} is {_producer(opened)}, not {' or '.join(openings)}"
    candidates = [
        fused
        for fused in candidates
        if fused.opening.name == opening.op_type and fused.has_bias == (bias is not None)
    ]
    closing = _user(inner.outputs[0], candidates[0].closing.name)
    if closing is None:
        return f"after {inner.op_type} is {_users(inner)}, not {candidates[0].closing.name}"
    post_norm = _user(closing.outputs[0], RMS_NORM.name)
    last = post_norm or closing
    fused = next((fused for fused in candidates if fused.added.name == last.op_type), None)
    add = _user(last.outputs[0], "Add")
    if add is None or add.inputs[0] is not opening.inputs[0]:
        return f"after {last.op_type} is {_users(last)}, not the addition to the block's input"
    if fused is None:
        return f"no operator computes {opening.op_type}, {inner.op_type} and {last.op_type}"
    if any(other.uses() for other in inner.outputs[1:]):  # they would be used before they are made
        return f"other operators use the outputs of {inner.op_type}"
    return _Parts(fused, opening, bias, split, inner, closing, post_norm, add)


def _blocks_around(node: ir.Node) -> list[FusedBlock]:
    """The fused blocks with this operator in the middle."""
    return [b for b in FUSED_BLOCKS if node.domain == DOMAIN and node.op_type == b.inner.name]


def _producer(values: Sequence[ir.Value | None]) -> str:
    node = values[0].producer() if values[0] is not None else None
    return node.op_type if node is not None else "an input"


def _users(node: ir.Node) -> str:
    users = sorted({use.node.op_type for use in node.outputs[0].uses()})
    return " and ".join(users) or "an output"


def _maker(values: Sequence[ir.Value | None], operators: Collection[str]) -> ir.Node | None:
    """The node whose outputs are these values, if it is one of these operators and they have one
    use."""
    node = values[0].producer() if values[0] is not None else None
    if node is None or node.op_type not in operators or tuple(values) != node.outputs:
        return None
    return node if all(map(_user_of, node.outputs)) else None


def _user(value: ir.Value, operator: str) -> ir.Node | None:
    """The node that uses this value, if it is this operator and the value has one use."""
    node = _user_of(value)
    return node if node is not None and node.op_type == operator else None


def _user_of(value: ir.Value) -> ir.Node | None:
    users = [use.node for use in value.uses()]
    return users[0] if len(users) == 1 and not value.is_graph_output() else None


def _replace(model: ir.Model, parts: _Parts) -> None:
    """Replaces the nodes of a block by one node, and adds its function to the model."""
    whole, inner, given = parts.fused.whole, parts.inner, _inputs(parts)
    attributes = _attributes(parts)
    key = (DOMAIN, whole.name, "")
    if key not in model.functions:
        model.functions[key] = whole.built(attributes)
    inputs = [given[name] for name in whole.inputs]
    node = ir.node(whole.name, inputs, attributes, domain=DOMAIN, num_outputs=whole.outputs)
    made = [parts.add.outputs[0], *inner.outputs[1:]]
    before = [inner, parts.split, parts.bias, parts.opening]
    old = [parts.add, parts.post_norm, parts.closing, *before]
    ir.convenience.replace_nodes_and_values(
        model.graph, parts.add, [n for n in old if n], [node], made, node.outputs
    )


def _inputs(parts: _Parts) -> dict[str, ir.Value | None]:
    """The inputs of all parts by their names in the whole, without those that parts make."""
    fused = parts.fused
    given = dict(zip(fused.opening.inputs, parts.opening.inputs, strict=True))
    if parts.bias:
        given["projection_bias"] = parts.bias.inputs[1]
    inner = zip(fused.inner.inputs, parts.inner.inputs, strict=True)
    given |= dict(list(inner)[fused.columns :])
    closing = zip(fused.closing.inputs, parts.closing.inputs, strict=True)
    given |= {f"closing_{name}": value for name, value in list(closing)[1:]}
    if parts.post_norm:
        given["post_norm"] = parts.post_norm.inputs[1]
    return given


def _attributes(parts: _Parts) -> dict[str, Any]:
    """The attributes of all parts, and the widths that `Split` has as an input."""
    attributes = {
        renamed.get(name, name): attribute.value
        for node, renamed in (
            (parts.post_norm, POST_NORM_NAMES),
            (parts.closing, CLOSING),
            (parts.inner, {}),
            (parts.opening, {}),
        )
        if node
        for name, attribute in node.attributes.items()
    }
    if parts.split:
        widths = parts.split.inputs[1]
        assert widths is not None
        assert widths.const_value is not None
        attributes["widths"] = widths.const_value.numpy().tolist()
    return attributes
