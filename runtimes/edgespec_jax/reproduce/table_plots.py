"""Pictures of the tables. Needs matplotlib, extra `edgespec[plots]`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure  # not pyplot, which has global state and needs a display

from edgespec.artifact.atomic_file import whole_file
from edgespec.costs.cost_model import expected_tokens
from edgespec.errors import EdgespecError
from edgespec_jax.reproduce.paper import Paper
from edgespec_jax.reproduce.theory import speedup

__all__ = ["TABLES", "draw"]

SPEED, ACCEPTANCE = TABLES = ("table2-measured.json", "table3.json")

ALPHAS = [i / 100 for i in range(100)]
GAMMAS = (1, 3, 5, 7, 10)


def draw(paper: Paper, folder: Path) -> list[Path]:
    """Draws the tables in `folder` (`table3.json`, `table2-measured.json`) next to the paper's.

    Returns:
        The pictures, written into `folder`.

    Raises:
        EdgespecError: the folder cannot be written, or a table in it is damaged.
    """
    panels = {
        "tokens-a-round": _tokens_a_round,
        "expected-against-measured": _expected_against_measured,
        "alpha-by-draft": _alpha_by_draft,
    }
    written = []
    for name, panel in panels.items():
        figure = Figure(figsize=(7, 4.5), layout="constrained")
        panel(figure.subplots(), paper, folder)
        path = folder / f"{name}.png"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with whole_file(path) as aside:
                figure.savefig(aside, dpi=150, format="png")
        except OSError as error:
            raise EdgespecError(f"{path} cannot be written: {error.strerror}") from None
        written.append(path)
    return written


def _tokens_a_round(axes: Axes, paper: Paper, folder: Path) -> None:
    for gamma in GAMMAS:
        axes.plot(ALPHAS, [expected_tokens(a, gamma) for a in ALPHAS], label=f"γ = {gamma}")
    axes.set(xlabel="α", ylabel="tokens a target call", title="Equation 1 of the paper")
    axes.legend()


def _expected_against_measured(axes: Axes, paper: Paper, folder: Path) -> None:
    """The rows of Table 2; on the diagonal, theory and measurement agree."""
    expected = [speedup(row.alpha, row.gamma, row.c) for row in paper.speed]
    measured = [row.measured_speedup for row in paper.speed]
    axes.scatter(expected, measured, label="paper, TPU-v4")
    rows = _rows(folder / SPEED)
    if rows:
        axes.scatter(
            [row["S"] for row in rows],
            [row["speed-up"] for row in rows],
            marker="x",
            label="here, synthetic acceptance",
        )
    axes.axline((1, 1), slope=1, linewidth=0.8, color="grey")
    axes.set(
        xlabel="expected speed-up",
        ylabel="measured speed-up",
        title="Table 2: the paper's rows and those measured here",
    )
    axes.legend()


def _alpha_by_draft(axes: Axes, paper: Paper, folder: Path) -> None:
    printed = [row for row in paper.alphas if row["task"] == "EnDe"]
    bars = {
        f"{row['draft'].replace(' ', chr(10))}\n(paper)": (
            row["alpha_temperature_0"],
            row["alpha_temperature_1"],
        )
        for row in printed
    }
    measured: dict[str, dict[int, float]] = {}
    for row in _rows(folder / ACCEPTANCE):
        measured.setdefault(row["draft"], {})[row["T"]] = row["α"]
    bars |= {f"{draft}\n(here)": (by[0], by[1]) for draft, by in measured.items()}
    positions = range(len(bars))
    for side, (t, shift) in enumerate(((0, -0.2), (1, 0.2))):
        heights = [pair[side] for pair in bars.values()]
        axes.bar([position + shift for position in positions], heights, width=0.4, label=f"T = {t}")
    axes.set_xticks(list(positions), list(bars), fontsize=6)
    axes.set(
        ylabel="α", title="Table 3, English-German: the paper's drafts and those measured here"
    )
    axes.legend()


def _rows(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    try:
        rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["rows"]
    except (OSError, ValueError, KeyError, TypeError):
        raise EdgespecError(f"{path} is damaged; measure it again or remove it") from None
    return rows
