"""Claim: the draft of a speech model runs where it was faster by the clock."""

from __future__ import annotations

import pytest

from edgespec.pair.window_drafting import AGAIN, WindowDrafting


def ways(seconds, windows=200, tokens=20):
    """Which windows draft, where one takes `seconds[drafted]` for each token."""
    choice, found = WindowDrafting(), []
    for _ in range(windows):
        found.append(choice.drafts())
        choice.count(found[-1], tokens * seconds[found[-1]], tokens)
    return found, choice


@pytest.mark.parametrize("faster", [False, True])
def test_both_ways_are_tried_and_then_the_faster_one_is_taken(faster):
    found, choice = ways({faster: 0.01, not faster: 0.015})
    assert found == [False, True, *[faster] * (len(found) - 2)]
    assert choice.gain == pytest.approx(1.5 if faster else 1 / 1.5)


@pytest.mark.parametrize("faster", [False, True])
def test_where_the_ways_are_near_the_other_one_is_tried_again(faster):
    found, _ = ways({faster: 0.01, not faster: 0.012})
    others = [index for index in range(2, len(found)) if found[index] != faster]
    assert all(index % AGAIN == AGAIN - 1 for index in others)
    assert len(others) == len(found) // AGAIN


def test_one_window_says_nothing_of_the_other_way():
    _, choice = ways({False: 0.01, True: 0.01}, windows=1)
    assert choice.gain is None


def test_a_change_of_what_is_faster_is_followed():
    choice, seconds, found = WindowDrafting(), {False: 0.01, True: 0.02}, []
    for window in range(160):
        if window == 80:  # another program runs now, or the sound is another
            seconds = {False: 0.02, True: 0.01}
        found.append(choice.drafts())
        choice.count(found[-1], 20 * seconds[found[-1]], 20)
    assert not any(found[32:47])
    assert sum(found[130:]) > 25


def test_a_window_without_a_token_decides_nothing():
    choice = WindowDrafting()
    choice.count(False, 0.5, 0)
    assert choice.drafts() is False
    choice.count(False, 0.5, 10)
    assert choice.drafts() is True
