"""A table and its notes, written as Markdown and as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from edgespec.artifact.atomic_file import whole_file
from edgespec.errors import EdgespecError

__all__ = ["Cell", "Report", "Row", "write"]

Cell = str | float | None
Row = dict[str, Cell]


@dataclass(frozen=True)
class Report:
    """A table.

    Attributes:
        name: of its files, for example "table1".
        rows: every row has the same keys, in the order of the columns; None prints as a dash.
        notes: what a reader needs to know to judge the rows.
        setting: the machine and the settings of a measurement; empty for a computed table.
    """

    name: str
    title: str
    rows: list[Row]
    notes: list[str] = field(default_factory=list)
    setting: Row = field(default_factory=dict)

    def markdown(self) -> str:
        columns = list(self.rows[0])
        lines = [f"### {self.title}", ""]
        lines += [_line(columns), _line(["---"] * len(columns))]
        lines += [_line([_cell(row[column]) for column in columns]) for row in self.rows]
        if self.setting:
            lines += ["", "; ".join(f"{key}: {value}" for key, value in self.setting.items())]
        if self.notes:
            lines += ["", *(f"- {note}" for note in self.notes)]
        return "\n".join(lines) + "\n"

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n"


def write(report: Report, folder: Path) -> None:
    """Writes `<name>.md` and `<name>.json`.

    Raises:
        EdgespecError: the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for ending, text in (("md", report.markdown()), ("json", report.to_json())):
            with whole_file(folder / f"{report.name}.{ending}") as aside:
                aside.write_text(text, encoding="utf-8")
    except OSError as error:
        raise EdgespecError(f"{folder} cannot be written: {error.strerror}") from None


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(value: Cell) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1 else f"{value:.2f}"
    return str(value)
