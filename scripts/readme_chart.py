"""Draws the bars of README.md from benchmarks/results (extra: plots).

    python scripts/readme_chart.py

Tokens per second of whole generations at 8 bits. For each peer the fastest of its settings is
shown, its own speculation included. Writes docs/images/speed-light.svg and speed-dark.svg.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "compare_six_kinds_shipped.json"
IMAGES = ROOT / "docs" / "images"
CONTEST = "8 bits"
KINDS = ("chat", "questions", "maths", "summaries", "translation", "retrieval")
# A label, and how the names of its ways begin in the results.
BARS = (
    ("edgespec, draft and lookup", "edgespec int8, draft and lookup"),
    ("edgespec, plain", "edgespec int8, plain"),
    ("ik_llama.cpp", "ik_llama.cpp"),
    ("OpenVINO GenAI", "openvino"),
)


@dataclass(frozen=True)
class Palette:
    """Colours of one theme; the first two bars are edgespec's, the others the peers'."""

    text: str
    bars: tuple[str, ...]


PALETTES = {
    "light": Palette("#24292f", ("#3949ab", "#9fa8da", "#6e7781", "#b4bbc2")),
    "dark": Palette("#e6edf3", ("#8c9eff", "#4d5aa8", "#a3abb5", "#6e7681")),
}


def fastest(rows: list[dict[str, Any]], kind: str, prefix: str) -> float:
    """Tokens per second of the fastest way whose name begins with `prefix`."""
    return max(
        row["tokens_per_second"]
        for row in rows
        if row["prompts"] == kind and row["way"].startswith(prefix)
    )


def draw(rows: list[dict[str, Any]], palette: Palette, path: Path) -> None:
    """One group of bars for each kind of prompt."""
    plt.rcParams.update({"svg.hashsalt": "edgespec", "svg.fonttype": "path", "font.size": 10})
    figure, axes = plt.subplots(figsize=(8.8, 3.2), layout="constrained")
    width = 0.2
    for index, ((label, prefix), colour) in enumerate(zip(BARS, palette.bars, strict=True)):
        speeds = [fastest(rows, kind, prefix) for kind in KINDS]
        lefts = [group + (index - (len(BARS) - 1) / 2) * width for group in range(len(KINDS))]
        bars = axes.bar(lefts, speeds, width * 0.9, color=colour, label=label)
        axes.bar_label(bars, fmt="%.0f", color=palette.text, fontsize=7.5, padding=2)
    axes.set_xticks(range(len(KINDS)), KINDS, color=palette.text)
    axes.set_ylabel("tokens per second", color=palette.text)
    axes.tick_params(axis="both", length=0, labelcolor=palette.text)
    axes.set_ylim(0, 1.3 * max(fastest(rows, kind, "") for kind in KINDS))
    axes.spines[:].set_visible(False)
    axes.set_yticks([])
    axes.legend(loc="upper center", ncols=4, frameon=False, labelcolor=palette.text, fontsize=9)
    figure.savefig(path, transparent=True, metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    """Writes both pictures."""
    contests = json.loads(RESULTS.read_text(encoding="utf-8"))["contests"]
    rows = next(one["rows"] for one in contests if one["contest"] == CONTEST)
    IMAGES.mkdir(parents=True, exist_ok=True)
    for theme, palette in PALETTES.items():
        draw(rows, palette, IMAGES / f"speed-{theme}.svg")


if __name__ == "__main__":
    main()
