"""Claim: the time of a text is that in which it is computed, alone or beside others."""

from __future__ import annotations

import pytest

from edgespec.core import stats as of_texts
from edgespec.core.decode import Round
from edgespec.core.stats import Stats, counted

TOKENS, COMPUTING, READING, WAITING = 4, 1.0, 10.0, 3.0


class Clock:
    def __init__(self):
        self.now = 100.0

    def perf_counter(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(of_texts, "time", clock)
    return clock


def rounds(clock, seconds):
    for token in range(TOKENS):
        clock.now += seconds
        yield Round([token], drafted=0, evaluated=0, accepted=0, logits=None)


def read(clock, computing, **options):
    stats = Stats()
    for _ in counted(rounds(clock, computing), stats, lambda: (0.0, 0.0), **options):
        clock.now += READING
    return stats


def test_alone_the_readers_time_is_not_its_own(clock):
    stats = read(clock, COMPUTING)
    assert stats.seconds == TOKENS * COMPUTING
    assert stats.first_token_seconds == COMPUTING


def test_beside_others_it_is_computed_while_its_reader_has_the_turn(clock):
    """Its rounds are there when they are asked for: all of its time lies between them."""
    began = clock.now
    clock.now += WAITING
    stats = read(clock, 0.0, shared_since=began)
    assert stats.first_token_seconds == WAITING
    assert stats.seconds == WAITING + (TOKENS - 1) * READING
    assert [time.seconds for time in stats.rounds] == [WAITING, *[READING] * (TOKENS - 1)]
