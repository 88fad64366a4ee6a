"""Pictures of measurements; matplotlib comes with the extra `plots`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from edgespec.artifact.writing.stream_output import goes_to_standard_output, is_stream, write_bytes
from edgespec.costs.cost_model import Costs
from edgespec.errors import EdgespecError, UsageError, in_checkout
from edgespec.measure.compare import ComparedWay
from edgespec.measure.tune_result import Trial, Tuning

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["check_picture", "plot_comparison", "plot_tuning"]


def plot_tuning(tuning: Tuning, path: Path) -> None:
    """Draws the cost of verification by positions, and each draft's predicted speed-up by γ."""
    figure = _figure(width=10)
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
    _save(figure, path)


def _gain(row: Trial, costs: Costs) -> tuple[list[int], list[float]]:
    gammas = list(range(costs.longest + 1))
    return gammas, [costs.speedup(row.acceptance, gamma) for gamma in gammas]


def plot_comparison(rows: Sequence[ComparedWay], path: Path) -> None:
    """Draws, by kind of texts, each way's speed over plain decoding, and the acceptance of each
    that drafts."""
    kinds = list(dict.fromkeys(row.kind for row in rows))
    ways = list(dict.fromkeys(row.way for row in rows))[1:]  # without plain, which is the line
    figure = _figure(width=max(10, 2 * len(kinds)))
    speeds, acceptance = figure.subplots(1, 2)
    width = 0.8 / len(ways)
    for index, way in enumerate(ways):
        of_way = [row for row in rows if row.way == way]
        left = [kind + (index - (len(ways) - 1) / 2) * width for kind in range(len(kinds))]
        speeds.bar(left, [_or_nan(row.decoding) for row in of_way], width, label=way)
        acceptance.bar(left, [_or_nan(row.acceptance_rate) for row in of_way], width, label=way)
    speeds.axhline(1, color="grey", linewidth=0.8)
    speeds.set(ylabel="speed over plain decoding", title="Decoding, without the prompt")
    acceptance.set(ylabel="α", ylim=(0, 1), title="Acceptance rate")
    for axes in (speeds, acceptance):
        names = ["all" if kind is None else kind for kind in kinds]
        axes.set_xticks(range(len(kinds)), names, rotation=30, ha="right")
        axes.legend(fontsize="x-small")
    _save(figure, path)


def _or_nan(value: float | None) -> float:
    """A number that is not there is not drawn."""
    return math.nan if value is None else value


def check_picture(path: Path) -> None:
    """Raises EdgespecError if no picture can be written there, or matplotlib is not installed."""
    formats = _figure(width=1).canvas.get_supported_filetypes()
    if goes_to_standard_output(path):
        raise UsageError("standard output has the table; give --plot a file")
    if path.suffix and path.suffix[1:].lower() not in formats and not is_stream(path):
        raise UsageError(
            f"{path} has no picture's ending; give one of: .{', .'.join(sorted(formats))}"
        )
    if path.is_dir() or not path.parent.is_dir():
        raise UsageError(f"{path} cannot be a file; give --plot a file in a folder that exists")


def _figure(width: float) -> Figure:
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise EdgespecError(f"--plot needs matplotlib: {in_checkout('.[plots]')}") from None
    return Figure(figsize=(width, 4), layout="constrained")


def _save(figure: Figure, path: Path) -> None:
    """Writes the picture whole or not at all, in the format of the file's ending, else as PNG."""
    data = BytesIO()
    ending = "" if is_stream(path) else path.suffix[1:].lower()
    try:
        figure.savefig(data, dpi=150, format=ending or "png")
        write_bytes(data.getvalue(), path)
    except (OSError, ValueError) as error:
        raise EdgespecError(f"{path} cannot be drawn: {error}") from None
