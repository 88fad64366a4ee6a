"""What the default leaves out for its time: EDGESPEC_DEEP=1 runs it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

import pytest

__all__ = ["DEEP", "by_turns", "deep"]

DEEP = os.environ.get("EDGESPEC_DEEP") == "1"
T = TypeVar("T")

deep = pytest.mark.skipif(not DEEP, reason="EDGESPEC_DEEP=1 runs it")


def by_turns(cases: Sequence[T], turn: int, turns: int) -> Sequence[T]:
    """The cases that one of several tests of a kind runs: each of them has its own, and together
    they run all. With EDGESPEC_DEEP=1 every test runs all."""
    return cases if DEEP else cases[turn % turns :: turns]
