"""Claim: the bits of a row do not depend on the other rows of a call: on their number, on drafted
tokens that are candidates, or on other texts.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from attention_calls import (
    HEADS,
    KINDS,
    NO_LAYOUTS,
    NO_SOURCES,
    attributes_of,
    buffers_of,
    cached_inputs,
    head_norms_of,
    joined,
)
from depth import by_turns, one_in
from edgespec.device.kernels import installed_kernels
from edgespec_export.operators.attention.attention_ops import SOURCE_ATTENTION
from edgespec_export.operators.int8_ops import (
    HADAMARD_INT8_MATMUL,
    INT8_MATMUL,
    RMS_NORM_HADAMARD_INT8_MATMUL,
    RMS_NORM_INT8_MATMUL,
)
from edgespec_export.quantization.hadamard import hadamard
from operator_calls import MANY, rows_of, weights_of

pytestmark = pytest.mark.skipif(installed_kernels() is None, reason="there are no kernels here")


SHAPES_AND_KINDS = [(shape, kind) for shape in HEADS for kind in KINDS]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", ["plain", "normed", "normed and rotated", "rotated"])
def test_an_int8_product_is_row_invariant(called, rng, name, threads):
    fixed = weights_of(rng, 576, 200)
    function, more, attributes = {
        "plain": (INT8_MATMUL, {}, {}),
        "normed": (
            RMS_NORM_INT8_MATMUL,
            {"norm": np.ones(576, np.float32)},
            {"epsilon": 1e-5, "step": 4 / 127},
        ),
        "normed and rotated": (
            RMS_NORM_HADAMARD_INT8_MATMUL,
            {"norm": np.ones(576, np.float32), "hadamard": hadamard(64)},
            {"epsilon": 1e-5, "blocks": [-1, 64], "rows": [-1, 576]},
        ),
        "rotated": (
            HADAMARD_INT8_MATMUL,
            {"hadamard": hadamard(64)},
            {"blocks": [-1, 64], "rows": [-1, 576]},
        ),
    }[name]
    fixed = more | fixed
    x = rows_of(rng, MANY, 576)
    (whole,) = called(function, {"x": x}, fixed, **attributes)
    for count in range(1, 18):
        (part,) = called(function, {"x": x[3 : 3 + count]}, fixed, threads=threads, **attributes)
        np.testing.assert_array_equal(part, whole[3 : 3 + count])


@one_in(4)
@pytest.mark.parametrize(
    ("shape", "kind", "past"),
    [
        (shape, kind, past)
        for turn, (shape, kind) in enumerate(SHAPES_AND_KINDS)
        for past in by_turns([0, 500, 2000], turn, 3)
    ],
)
def test_a_position_has_the_same_bits_in_calls_of_any_size(called, rng, shape, kind, past):
    """One call, and the same positions in calls of 1, 2, 5, 9 and the remaining ones."""
    shape = HEADS[shape]
    function, complete = KINDS[kind]
    whole = complete(rng, cached_inputs(rng, shape, MANY, past, past + MANY), shape)
    attributes = attributes_of(shape, function)
    expected, *cache = called(function, whole, {}, **attributes)
    buffers = buffers_of(whole)
    for call, (start, end) in enumerate(pairwise([0, 1, 3, 8, 17, MANY])):
        part = {name: whole[name][start:end] for name in "qkv"}
        part |= buffers | head_norms_of(whole)
        part |= {"last": np.array([past + end - 1], np.int32)}
        part |= {"total": np.array(past + end, np.int32), "layouts": whole["layouts"]}
        if "cos" in whole:
            part |= {name: whole[name][:, start:end] for name in ("cos", "sin")}
        else:
            part["bias"] = np.ascontiguousarray(whole["bias"][:, :, start:end, : past + end])
        threads = 1 + call % 2
        out, *present = called(
            function, part, {}, threads=threads, **attributes_of(shape, function)
        )
        np.testing.assert_array_equal(out, expected[start:end])
        buffers = dict(zip(buffers, present, strict=True))
    for ours, theirs in zip(present, cache, strict=True):
        np.testing.assert_array_equal(ours, theirs)


PASTS = [0, 29, 60, 247, 251, 255, 1020]


# Parents of candidates in a call of 9 tokens. The last case is the work of several threads.
FAMILIES = {
    "one": [0],
    "some": [4, 0, 4, 7],
    "more than drafted tokens": [3, 6, 1, 1, 0, 5, 7, 2, 2, 7] * 4,
}


LINE = 9


def with_candidates(rng, line, parents):
    """A call of drafted tokens and candidates; a candidate's position is that after its parent."""
    count, past = len(parents), int(line["total"]) - LINE
    positions = np.array(parents) + 1
    tree = dict(line)
    for name in "qkv":
        new = rng.normal(size=(count, line[name].shape[1])).astype(np.float32)
        tree[name] = np.concatenate([line[name], new])
    total = past + LINE + count
    tree |= {"last": np.array([total - 1], np.int32), "total": np.array(total, np.int32)}
    tree["layouts"] = np.array(
        [(0, past + after, past + LINE + i) for i, after in enumerate(positions)], np.int64
    )
    if "cos" in line:
        for name in ("cos", "sin"):
            tree[name] = np.concatenate([line[name], line[name][:, positions]], axis=1)
    else:
        size = (1, line["bias"].shape[1], LINE + count, total)
        tree["bias"] = rng.normal(size=size).astype(np.float32)
        tree["bias"][:, :, :LINE, : past + LINE] = line["bias"]
    return tree


def as_drafted(tree, position, row, past):
    """The call that has a candidate, row `row` of `tree`, as a drafted token at `position`."""
    rows = [*range(position), row]
    part = {name: tree[name][rows] for name in "qkv"}
    part |= buffers_of(tree) | head_norms_of(tree) | {"layouts": NO_LAYOUTS}
    total = past + len(rows)
    part |= {"last": np.array([total - 1], np.int32), "total": np.array(total, np.int32)}
    if "cos" in tree:
        return part | {name: tree[name][:, rows] for name in ("cos", "sin")}
    return part | {"bias": np.ascontiguousarray(tree["bias"][:, :, rows, :total])}


# Tiles of 32 and 64 keys and chunks of 256 begin inside the drafted tokens, and after them.
@one_in(4)
@pytest.mark.parametrize(
    ("shape", "kind", "parents", "past"),
    [
        (shape, kind, parents, past)
        for turn, (shape, kind) in enumerate(SHAPES_AND_KINDS)
        for number, parents in enumerate(FAMILIES)
        for past in by_turns(PASTS, 2 * turn + number, len(PASTS))
    ],
)
def test_a_candidate_has_the_bits_that_it_has_as_a_drafted_token(
    called, rng, shape, kind, parents, past
):
    shape, parents = HEADS[shape], FAMILIES[parents]
    function, complete = KINDS[kind]
    capacity = past + LINE + len(parents)
    line = complete(rng, cached_inputs(rng, shape, LINE, past, capacity), shape)
    tree = with_candidates(rng, line, parents)
    expected, *_ = called(function, line, {}, **attributes_of(shape, function))
    for threads in (1, 2):
        out, *cache = called(function, tree, {}, threads=threads, **attributes_of(shape, function))
        np.testing.assert_array_equal(out[:LINE], expected)
        for candidate, parent in enumerate(parents):
            row, position = LINE + candidate, parent + 1
            part = as_drafted(tree, position, row, past)
            alone, *its_cache = called(function, part, {}, **attributes_of(shape, function))
            np.testing.assert_array_equal(out[row], alone[position])
            for ours, theirs in zip(cache, its_cache, strict=True):
                np.testing.assert_array_equal(ours[:, :, past + row], theirs[:, :, past + position])


@pytest.mark.parametrize("kind", KINDS)
def test_without_kernels_candidates_are_an_error(called, rng, kind):
    function, complete = KINDS[kind]
    shape = HEADS["T5"]
    line = complete(rng, cached_inputs(rng, shape, LINE, 5, 30), shape)
    tree = with_candidates(rng, line, [2, 3])
    with pytest.raises(Exception, match="Reshape"):
        called(function, tree, {}, kernel=False, **attributes_of(shape, function))


TEXTS = [(0, 40), (300, 5), (7, 9), (33, 1)]  # positions before a call, and rows in it


@one_in(5)
@pytest.mark.parametrize("shape", HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_row_has_the_bits_that_it_has_in_a_call_of_its_own_text(
    called, rng, shape, kind, threads
):
    function, complete = KINDS[kind]
    alone, call, rows, starts = joined(rng, complete, shape, TEXTS)
    out, *cache = called(function, call, {}, threads=threads, **attributes_of(shape, function))
    for number, inputs in enumerate(alone):
        expected, *its_cache = called(function, inputs, {}, **attributes_of(shape, function))
        for row, (text, own) in enumerate(rows):
            if text == number:
                np.testing.assert_array_equal(out[row], expected[own])
        first, count = starts[number], sum(TEXTS[number])
        for ours, theirs in zip(cache, its_cache, strict=True):
            np.testing.assert_array_equal(ours[:, :, first : first + count], theirs)


def test_a_row_that_sees_a_key_of_another_text_is_caught(called, rng):
    """The mutant begins one text one position too early."""
    shape = HEADS["SmolLM2"]
    function, complete = KINDS["Rotary fp32"]
    alone, call, rows, _ = joined(rng, complete, shape, TEXTS)
    call["layouts"][[row for row, (text, _) in enumerate(rows) if text == 1], 0] -= 1
    out, *_ = called(function, call, {}, **attributes_of(shape, function))
    expected, *_ = called(function, alone[1], {}, **attributes_of(shape, function))
    wrong = [out[row] for row, (text, own) in enumerate(rows) if (text, own) == (1, 2)]
    assert not np.array_equal(wrong[0], expected[2])


def test_rows_see_their_parts_of_a_source(called, rng):
    """And have the bits that they have where it is all of the source."""
    shape = HEADS["T5"]
    heads, _, size = shape
    parts = [(50, 40), (3, 1), (10, 33)]
    key, value = (rng.normal(size=(1, heads, 90, size)).astype(np.float32) for _ in range(2))
    q = rng.normal(size=(7, heads * size)).astype(np.float32)
    seen = [parts[row % len(parts)] for row in range(len(q))]
    inputs = {"q": q, "key": key, "value": value, "sources": np.array(seen, np.int64)}
    (out,) = called(SOURCE_ATTENTION, inputs, {}, threads=2, **attributes_of(shape))
    for row, (start, count) in enumerate(seen):
        whole = {
            name: inputs[name][:, :, start : start + count].copy() for name in ("key", "value")
        }
        whole |= {"q": q[row : row + 1], "sources": NO_SOURCES}
        (alone,) = called(SOURCE_ATTENTION, whole, {}, **attributes_of(shape))
        np.testing.assert_array_equal(out[row], alone[0])
    for wrong, said in (
        ([[0, 1, 2]], "a row has 2 numbers"),
        ([[-1, 4]], "row 0 sees 4 positions from -1 on of a source of 90"),
        ([[0, 0]], "sees 0 positions"),
        ([[80, 11]], "sees 11 positions from 80"),
    ):
        with pytest.raises(Exception, match=said):
            called(
                SOURCE_ATTENTION,
                inputs | {"sources": np.array(wrong, np.int64)},
                {},
                **attributes_of(shape),
            )
    with pytest.raises(Exception, match="Reshape"):
        called(SOURCE_ATTENTION, inputs, {}, kernel=False, **attributes_of(shape))
