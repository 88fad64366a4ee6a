"""The figures that the paper prints."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any, NamedTuple

__all__ = ["Paper", "SpeedRow", "TheoryRow", "read_paper"]


class TheoryRow(NamedTuple):
    """A row of Table 1: operations and speed-up at c = 0."""

    alpha: float
    gamma: int
    operations: float
    speedup: float


class SpeedRow(NamedTuple):
    """A row of Table 2 with the same row of Table 4; the target is T5-XXL.

    Attributes:
        task: "EnDe" or "CNNDM".
        draft: "T5-small", "T5-base" or "T5-large".
        alpha, c: as Table 4 prints them.
        expected_speedup: by the paper's formula (Table 4).
        measured_speedup: on the paper's TPU (Table 2).
    """

    task: str
    draft: str
    temperature: int
    gamma: int
    alpha: float
    c: float
    expected_speedup: float
    measured_speedup: float


class Paper(NamedTuple):
    """The paper's tables.

    Attributes:
        source: the paper and its version.
        theory: Table 1.
        speed: Tables 2 and 4.
        alphas: Table 3; keys target, task, draft, alpha_temperature_0, alpha_temperature_1.
        lenience: Table 5; keys task, temperature, draft, and alpha by lenience.
    """

    source: str
    theory: list[TheoryRow]
    speed: list[SpeedRow]
    alphas: list[dict[str, Any]]
    lenience: list[dict[str, Any]]


def read_paper() -> Paper:
    """The figures in `paper_tables.json`."""
    text = files("edgespec_jax.reproduce").joinpath("paper_tables.json").read_text("utf-8")
    tables = json.loads(text)
    return Paper(
        tables["source"],
        [TheoryRow(**row) for row in tables["table1_theory_c0"]],
        [SpeedRow(**row) for row in tables["table2_and_4_t5"]],
        tables["table3_alpha"],
        tables["table5_lenience_alpha"],
    )
