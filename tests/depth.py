"""What the default leaves out for its time: EDGESPEC_DEEP=1 runs it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from operator import is_
from typing import TypeVar

import pytest

__all__ = ["DEEP", "by_turns", "deep", "is_left_out", "one_in"]

DEEP = os.environ.get("EDGESPEC_DEEP") == "1"
T = TypeVar("T")

deep = pytest.mark.skipif(not DEEP, reason="EDGESPEC_DEEP=1 runs it")


def by_turns(cases: Sequence[T], turn: int, turns: int) -> Sequence[T]:
    """The cases that one of several tests of a kind runs: each of them has its own, and together
    they run all. With EDGESPEC_DEEP=1 every test runs all."""
    return cases if DEEP else cases[turn % turns :: turns]


def one_in(parts: int, turn: int = 0) -> pytest.MarkDecorator:
    """Of a test's cases one in `parts` runs by default: those whose values' numbers add up to
    `turn`, but for multiples of `parts`. So of a test with several parameters every value runs,
    with some values of the others; tests of a kind have different turns. With EDGESPEC_DEEP=1 all
    cases run."""
    return pytest.mark.one_in(parts, turn)


def is_left_out(item: pytest.Item) -> bool:
    """Whether `one_in` leaves a case out."""
    mark = item.get_closest_marker("one_in")
    if DEEP or mark is None or not hasattr(item, "callspec"):
        return False
    parts, turn = mark.args
    return sum(_numbers(item)) % parts != turn % parts


def _numbers(item: pytest.Item) -> Iterator[int]:
    """Where a case's values are among those of the test's parameters and of its fixtures."""
    case, of_the_test = item.callspec, set()
    for mark in item.iter_markers("parametrize"):
        names, choices = mark.args
        names = [name.strip() for name in names.split(",")] if isinstance(names, str) else names
        own = [case.params[name] for name in names]
        yield next(
            number
            for number, choice in enumerate(choices)
            if all(map(is_, own, _values(choice, len(names))))
        )
        of_the_test.update(names)
    yield from (number for name, number in case.indices.items() if name not in of_the_test)


def _values(choice: object, count: int) -> Sequence[object]:
    if isinstance(choice, type(pytest.param())):
        return choice.values
    return choice if count > 1 else (choice,)
