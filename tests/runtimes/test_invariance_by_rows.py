"""Claim: the measurement by rows finds the fewest rows from which on calls agree, and says no where
more is wrong."""

from __future__ import annotations

import numpy as np
import pytest
from test_invariance import EncoderDecoder, Scorer, SharedScale, TracesInCache

from edgespec.artifact.graph_io import MAX_ROWS
from edgespec.device.device import Device
from edgespec.errors import EdgespecError
from edgespec_runtimes.invariance_by_rows import CALLS, measure_by_rows
from edgespec_runtimes.machine import machine_of
from logged import logged_lines


def measured(model):
    return measure_by_rows(model, machine_of(Device(1)))


@pytest.mark.parametrize("model", [Scorer, EncoderDecoder])
@pytest.mark.parametrize("fewest", range(1, MAX_ROWS + 1))
def test_shorter_calls_with_other_bits_are_padded(fewest, model):
    with logged_lines() as said:
        found = measured(model(lambda row: row.rows < fewest))
    assert (found.is_row_invariant, found.min_rows, found.max_rows) == (True, fewest, MAX_ROWS)
    assert (found.one_row_difference > 0) == (fewest > 1)
    rows = ", ".join(map(str, range(1, fewest)))
    assert [line.startswith(f"calls of {rows} rows differ") for line in said] == [True] * (
        fewest > 1
    )


@pytest.mark.parametrize(
    "fault",
    [
        lambda row: row.index % 3 == 2,
        lambda row: row.rows > 4 and row.index >= row.rows // 4 * 4,
    ],
    ids=["every third row", "blocks of four"],
)
def test_a_fault_that_no_padding_mends_is_found(fault):
    assert not measured(Scorer(fault)).is_row_invariant


@pytest.mark.parametrize("mutant", [SharedScale, TracesInCache])
def test_rows_that_change_others_are_found(mutant):
    assert not measured(mutant()).is_row_invariant


def test_it_makes_few_calls():
    """At 1.3 s a call there is an answer within a minute."""
    calls = []
    model = Scorer()
    score = model.score
    model.score = lambda tokens: calls.append(len(tokens)) or score(tokens)
    measured(model)
    assert set(calls) == set(range(1, MAX_ROWS + 1))
    assert len(calls) <= CALLS <= 44


@pytest.mark.parametrize("capacity", [35, 53, 54])
def test_a_small_cache_is_measured_from_its_beginning(capacity):
    assert measured(Scorer(capacity=capacity)).is_row_invariant
    assert not measured(Scorer(lambda row: row.index % 3 == 2, capacity)).is_row_invariant


def test_a_cache_too_small_to_measure_is_an_error():
    with pytest.raises(EdgespecError, match="holds 34 positions; row-invariance needs 35"):
        measured(Scorer(capacity=34))


def test_logits_that_are_no_numbers_are_an_error():
    model = Scorer()
    model.score = lambda tokens: np.full((len(tokens), 8), np.inf, np.float32)
    with pytest.raises(EdgespecError, match="not finite"):
        measured(model)
