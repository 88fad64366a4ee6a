"""Pictures of measurements; matplotlib comes with the extra `plots`."""

from __future__ import annotations

from pathlib import Path

from edgespec.core.cost_model import Costs
from edgespec.errors import EdgespecError
from edgespec.measure.tune_result import Trial, Tuning

__all__ = ["plot_tuning"]


def plot_tuning(tuning: Tuning, path: Path) -> None:
    """Draws the cost of verification by positions, and each draft's predicted speed-up by γ."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise EdgespecError("--plot needs matplotlib: pip install 'edgespec[plots]'") from None
    figure = Figure(figsize=(10, 4), layout="constrained")
    costs, gains = figure.subplots(1, 2)
    for row in tuning.trials:
        if len(row.costs.verify) == 1:
            continue
        name = f"{row.target}, {row.threads} threads"
        draft = f"{name}, {row.tried}"
        if row.draft_format is None:
            positions = range(1, len(row.costs.verify) + 1)
            costs.plot(positions, row.costs.verify, marker=".", label=name)
        gains.plot(*_gain(row, row.costs), marker=".", label=draft)
    costs.set(xlabel="positions m", ylabel="v(m) = t(m) / t(1)", title="Cost of a target call")
    gains.axhline(1, color="grey", linewidth=0.8)
    gains.set(xlabel="γ", ylabel="speed-up at the mean α", title="Predicted over plain decoding")
    for axes in (costs, gains):
        axes.legend(fontsize="x-small")
    try:
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as error:
        raise EdgespecError(f"{path} cannot be drawn: {error}") from None


def _gain(row: Trial, costs: Costs) -> tuple[list[int], list[float]]:
    gammas = list(range(costs.longest + 1))
    return gammas, [costs.speedup(row.acceptance, gamma) for gamma in gammas]
