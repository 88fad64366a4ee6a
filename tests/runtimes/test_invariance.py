"""Claim: the short measurement of row invariance finds every kind of fault that is known.

The model is synthetic: a position's logits depend on the tokens up to it. Each mutant changes the
last bit of some rows as a real kernel was seen to do (docs/measurements/system.md).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from depth import one_in
from edgespec.artifact.graph_io import MAX_ROWS
from edgespec.device.device import Device
from edgespec.errors import EdgespecError
from edgespec_runtimes.invariance import (
    LONG,
    MEASURED_CAPACITY,
    SHORT,
    STARTS,
    measure_row_invariance,
    static_plan,
)
from edgespec_runtimes.machine import machine_of

VOCABULARY = 8
PLANS = {"short": SHORT, "long": LONG}


class Row(NamedTuple):
    """A row of a call: its index, the rows of the call and the positions cached before it."""

    index: int
    rows: int
    past: int

    @property
    def keys(self) -> int:
        """Positions that attention of the call sees."""
        return self.past + self.rows


class Scorer:
    """A row-invariant model, but for the rows that `is_faulty` names."""

    vocab_size = VOCABULARY
    has_encoder = False

    def __init__(self, is_faulty=lambda row: False, capacity=MEASURED_CAPACITY):
        self.is_faulty = is_faulty
        self.capacity = capacity
        self.cache: list[float] = []

    @property
    def length(self):
        return len(self.cache)

    def prefill(self, prompt):
        self.cache = [] if self.has_encoder else [1.0 + token for token in prompt[:-1]]
        return prompt[-1]

    def rewind(self, length):
        del self.cache[length:]

    def score(self, tokens):
        past = self.length
        self.cache += [1.0 + token for token in tokens]
        return np.array(
            [self.row(Row(index, len(tokens), past), tokens) for index in range(len(tokens))]
        )

    def row(self, row, tokens):
        position = row.past + row.index
        logits = np.float32(sum(self.cache[: position + 1])) + np.arange(VOCABULARY, dtype="f4")
        return np.nextafter(logits, np.float32(np.inf)) if self.is_faulty(row) else logits


class SharedScale(Scorer):
    """A scale for all rows of a call, as with quantization per tensor."""

    def row(self, row, tokens):
        return super().row(row, tokens) * np.float32(1 + max(tokens) / 1024)


class TracesInCache(Scorer):
    """What a call rejects stays in the cache, as where a provider cannot write it in place."""

    def __init__(self):
        super().__init__()
        self.written = 0

    def score(self, tokens):
        fresh = self.length >= self.written
        logits = super().score(tokens)
        self.written = max(self.written, self.length)
        return logits if fresh else logits + np.float32(1)


class EncoderDecoder(Scorer):
    """Its prompt goes to the encoder: the decoder's cache is empty after it."""

    has_encoder = True


def short_block(row, positions):
    """Attention in blocks of so many rows; a block with one row uses another kernel."""
    return row.rows % positions == 1 and row.index == row.rows - 1


FAULTS = {
    "three rows, behind 64 positions": lambda row: row.rows == 3 and row.past > 64,
    "three rows, from 64 to 100 positions": lambda row: row.rows == 3 and 64 < row.past < 100,
    "sixteen rows": lambda row: row.rows == 16,
    "two rows, a cache beyond 128": lambda row: row.rows == 2 and row.keys > 128,
    "the last row of an odd call": lambda row: row.rows % 2 and row.index == row.rows - 1 > 0,
    "the last row of a call that fills no vector": lambda row: (
        row.rows % 8 and row.index == row.rows - 1 > 0
    ),
    "a block of one row": lambda row: row.rows > 1 and short_block(row, 16),
    "row blocks of four and the rest": lambda row: row.rows > 4 and row.index >= row.rows // 4 * 4,
    "the tail of a softmax over 4": lambda row: 1 < row.rows < 4 and row.keys % 4 == 3,
    "the tail of a softmax over 8": lambda row: 1 < row.rows < 6 and row.keys % 8 == 5,
    "the tail of a softmax over 16": lambda row: row.rows > 1 and row.keys % 16 == 9,
    "more keys than 32 in few rows": lambda row: 1 < row.rows < 8 and 32 < row.keys < 48,
}


def measured(model, plan):
    return measure_row_invariance(model, machine_of(Device(1)), plan)


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_a_model_that_keeps_rows_apart_is_row_invariant(plan):
    found = measured(Scorer(), plan)
    assert (found.is_row_invariant, found.min_rows, found.max_rows) == (True, 1, MAX_ROWS)
    assert found.one_row_difference == 0


@one_in(2)
@pytest.mark.parametrize("model", [Scorer, EncoderDecoder])
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_a_known_fault_is_found(plan, fault, model):
    assert not measured(model(fault), plan).is_row_invariant


@pytest.mark.parametrize("mutant", [SharedScale, TracesInCache])
@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_rows_that_change_others_are_found(plan, mutant):
    assert not measured(mutant(), plan).is_row_invariant


@one_in(2)
@pytest.mark.parametrize("residue", range(8))
@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_one_row_that_differs_only_somewhere_is_never_called_alone(plan, residue):
    found = measured(Scorer(lambda row: row.rows == 1 and row.keys % 8 == residue), plan)
    assert (found.is_row_invariant, found.min_rows) == (True, 2)
    assert found.one_row_difference > 0


@one_in(2)
@pytest.mark.parametrize("rows", range(2, MAX_ROWS))
@pytest.mark.parametrize("start", STARTS)
def test_every_number_of_rows_is_measured_behind_every_start(start, rows):
    def fault(row):
        return row.rows == rows and start <= row.past < start + MAX_ROWS

    assert not measured(Scorer(fault), SHORT).is_row_invariant


def test_the_short_measurement_makes_a_third_of_the_calls():
    counts = {}
    for name, plan in PLANS.items():
        calls = []
        measured(Scorer(lambda row, calls=calls: calls.append(row.index == 0)), plan)
        counts[name] = sum(calls)
    assert counts["short"] * 2.9 < counts["long"]


def test_a_cache_too_small_to_measure_is_an_error():
    with pytest.raises(EdgespecError, match="holds 34 positions; row-invariance needs 35"):
        measured(Scorer(capacity=34), SHORT)


# --- graphs with fixed shapes --------------------------------------------------------------------

WIDTHS = (2, 5)


def measured_static(model, *, long=False):
    plan = static_plan(WIDTHS, model.capacity, long=long)
    return measure_row_invariance(model, machine_of(Device(1)), plan)


@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize("capacity", [35, 64, MEASURED_CAPACITY])
def test_graphs_with_fixed_shapes_are_compared_with_the_widest(long, capacity):
    found = measured_static(Scorer(capacity=capacity), long=long)
    assert (found.is_row_invariant, found.min_rows, found.max_rows) == (True, 1, 5)


@pytest.mark.parametrize("mutant", [SharedScale, TracesInCache])
def test_rows_that_change_others_are_found_in_the_few_calls_of_fixed_shapes(mutant):
    assert not measured_static(mutant()).is_row_invariant


@pytest.mark.parametrize("rows", [2, 4, 5])
def test_a_graph_with_other_bits_than_the_widest_is_found(rows):
    fault = Scorer(lambda row: row.rows == rows and row.index == rows - 1)
    assert not measured_static(fault).is_row_invariant


def test_few_calls_of_fixed_shapes_have_one_start_and_long_ones_all():
    few, long = (static_plan(WIDTHS, MEASURED_CAPACITY, long=long) for long in (False, True))
    assert len(few.starts) == 1
    assert long.starts == STARTS
    assert few.calls <= 20
