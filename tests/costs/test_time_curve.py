"""Claim: a curve of times follows few measurements, and no spike."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.costs.time_curve import TimeCurve

GUESS = [1.0, 1.1, 1.2, 1.3, 1.4]


def curve(*measured):
    """With (count, seconds) as its measurements, one a round."""
    found = TimeCurve(GUESS)
    for number, (count, seconds) in enumerate(measured):
        found.add(count, seconds, number)
    return found


def test_it_is_unknown_until_the_second_measurement():
    assert curve().seconds(0) is None
    assert curve((1, 0.01)).seconds(1) is None
    assert curve((1, 0.01), (1, 0.01)).seconds(2) is not None


def test_counts_without_a_measurement_follow_the_guess():
    assert curve((3, 0.012), (3, 0.012)).seconds(2) == pytest.approx([g / 100 for g in GUESS])


def test_between_measured_counts_the_ratio_to_the_guess_is_interpolated():
    found = curve((1, 0.010), (1, 0.010), (3, 0.024), (3, 0.024)).seconds(4)
    assert found == pytest.approx([0.010, 0.0165, 0.024, 0.026, 0.028])


def test_a_larger_count_takes_no_less_time():
    found = curve((2, 0.020), (2, 0.020), (4, 0.013), (4, 0.013)).seconds(4)
    assert found == sorted(found)
    assert found[1] == found[3] == pytest.approx(0.013)


@pytest.mark.parametrize("spike", [0.1, 10.0, 1e6])
@pytest.mark.parametrize("at", range(6))
def test_a_spike_changes_nothing(spike, at):
    times = [0.012] * 6
    times[at] = spike
    assert curve(*((3, seconds) for seconds in times)).seconds(6)[2] == 0.012


def test_a_lone_measurement_is_believed_a_little():
    found = curve((1, 0.01), (1, 0.01), (5, 1.0)).seconds(3)
    assert found[4] == pytest.approx(0.014 * TimeCurve.SPIKE)
    confirmed = curve((1, 0.01), (1, 0.01), (5, 1.0), (5, 1.0)).seconds(4)
    assert confirmed[4] == 1.0


def test_what_took_much_longer_than_the_latest_is_forgotten():
    """Another program ran, and does no more."""
    busy = [(3, 0.024)] * TimeCurve.WINDOW
    assert curve(*busy, (3, 0.012), (3, 0.013)).seconds(10)[2] == pytest.approx(0.012)
    little_longer = [(3, 0.012 * TimeCurve.SPIKE)] * TimeCurve.WINDOW
    assert curve(*little_longer, (3, 0.012), (3, 0.013)).seconds(10)[2] == pytest.approx(0.015)


def test_a_change_is_followed_within_a_window():
    times = [(2, 0.011)] * 40 + [(2, 0.022)] * TimeCurve.WINDOW
    assert curve(*times).seconds(48)[1] == 0.022


def test_old_measurements_are_forgotten():
    found = curve((1, 0.01), (1, 0.01), (5, 1.0), (5, 1.0))
    for number in range(4, TimeCurve.AGE + 4):
        found.add(1, 0.01, number)
    assert found.seconds(TimeCurve.AGE + 4) == pytest.approx([g / 100 for g in GUESS])


def test_counts_beyond_the_curve_and_clocks_that_stand_still_are_ignored():
    found = curve((6, 1.0), (0, 1.0), (1, 0.0), (2, -1.0))
    assert found.seconds(4) is None


measurements = st.lists(st.tuples(st.integers(1, 5), st.floats(1e-6, 1e3)), min_size=1).map(
    lambda measured: [*measured, measured[-1]]  # two of one kind, so that the curve is known
)


@given(measurements)
def test_times_are_positive_complete_and_do_not_fall(measured):
    found = curve(*measured).seconds(len(measured))
    assert len(found) == len(GUESS)
    assert min(found) > 0
    assert found == sorted(found)


@given(measurements, st.floats(0.1, 10))
def test_the_unit_of_the_guess_does_not_matter(measured, unit):
    other = TimeCurve([unit * value for value in GUESS])
    for number, (count, seconds) in enumerate(measured):
        other.add(count, seconds, number)
    here = curve(*measured).seconds(len(measured))
    assert other.seconds(len(measured)) == pytest.approx(here)
