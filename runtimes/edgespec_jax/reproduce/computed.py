"""The tables that follow from formulas: Table 1, and the expected half of Tables 2 and 4."""

from __future__ import annotations

from edgespec.costs.cost_model import expected_tokens
from edgespec_jax.reproduce.paper import Paper, SpeedRow
from edgespec_jax.reproduce.table_report import Report, Row
from edgespec_jax.reproduce.theory import best_gamma, operations, speedup

__all__ = ["contradictions", "table1", "table2"]

ALPHA_ROUNDING, SPEEDUP_ROUNDING = 0.005, 0.05  # half of the last printed digit


def table1(paper: Paper) -> Report:
    """Operations and speed-up with a draft that costs nothing (c = 0)."""
    rows: list[Row] = [
        {
            "α": row.alpha,
            "γ": row.gamma,
            "operations, paper": f"{row.operations:.2f}",
            "operations": f"{operations(row.alpha, row.gamma):.2f}",
            "speed-up, paper": f"{row.speedup:.2f}",
            "speed-up": f"{speedup(row.alpha, row.gamma, c=0):.2f}",
        }
        for row in paper.theory
    ]
    return Report("table1", "Table 1: operations and speed-up at c = 0", rows, [paper.source])


def table2(paper: Paper) -> Report:
    """Tables 2 and 4 next to the paper's formula, computed from the printed α, γ and c."""
    notes = [paper.source, *contradictions(paper.speed)]
    title = "Tables 2 and 4: T5-XXL, paper and formula"
    return Report("table2", title, [_row(row) for row in paper.speed], notes)


def _row(row: SpeedRow) -> Row:
    return {
        "task": row.task,
        "draft": row.draft,
        "T": row.temperature,
        "γ": row.gamma,
        "α": row.alpha,
        "c": row.c,
        "expected, paper": row.expected_speedup,
        "expected": speedup(row.alpha, row.gamma, row.c),
        "measured, paper": row.measured_speedup,
        "tokens a round": expected_tokens(row.alpha, row.gamma),
        "best γ by the formula": best_gamma(row.alpha, row.c),
    }


def contradictions(rows: list[SpeedRow]) -> list[str]:
    """Notes on printed figures that contradict each other by more than rounding explains."""
    notes = []
    for row in rows:
        most = expected_tokens(row.alpha + ALPHA_ROUNDING, row.gamma)
        if row.measured_speedup - SPEEDUP_ROUNDING > most:
            notes.append(
                f"{row.task}, {row.draft}, T={row.temperature}: the measured speed-up "
                f"{row.measured_speedup} is more than the tokens of a round at α = {row.alpha}, "
                f"γ = {row.gamma} allow even with a free draft ({most:.2f}): α, γ or the "
                "baseline must have differed"
            )
    largest = max(row.c for row in rows)
    if largest > 0.05:
        notes.append(
            f"the paper's text puts c below 0.05 in all its experiments; Table 4 prints {largest} "
            "for T5-large"
        )
    over = sum(row.measured_speedup > row.expected_speedup for row in rows)
    notes.append(
        f"measured exceeds expected in {over} of {len(rows)} rows, although the formula counts no "
        "cost except the draft's"
    )
    return notes
