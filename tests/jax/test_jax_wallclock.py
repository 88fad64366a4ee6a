"""Claim: the measured half of Table 2 accepts with the given α and compiles each loop once.

The times themselves are not checked.
"""

import logging
import math

import pytest

from depth import deep
from shipped_models import MODELS

pytest.importorskip("jax")
wallclock = pytest.importorskip("edgespec_jax.reproduce.wallclock")
shapes = pytest.importorskip("edgespec_jax.reproduce.shapes")
paper = pytest.importorskip("edgespec_jax.reproduce.paper")
checkpoints = pytest.importorskip("edgespec_jax.jax_checkpoint")

# The target has one layer and random weights; the draft is a checkpoint.
SMALL = wallclock.Bench(
    divisor=16,
    number_format="fp32",
    checkpoints={"T5-small": checkpoints.open_jax_checkpoint(str(MODELS / "en-de-draft"))},
    prompt=4,
    tokens=25,
    texts=3,
    row_seconds=1e-9,
)


@deep
def test_every_row_accepts_with_its_alpha(monkeypatch, caplog):
    monkeypatch.setitem(shapes.SIZES, "T5-XXL", (256, 512, 16, 1))
    rows = [
        paper.SpeedRow("EnDe", "T5-small", 0, 3, 1.0, 0.02, 3.0, 3.0),
        paper.SpeedRow("CNNDM", "T5-small", 0, 3, 0.0, 0.02, 1.0, 1.0),
    ]
    table = paper.read_paper()._replace(speed=rows)
    with caplog.at_level(logging.INFO, "edgespec"):
        first, report = wallclock.wallclock(table, SMALL)
    always, never = report.rows
    # 25 tokens in rounds of 4: the seventh round emits one token.
    assert always["tokens a round"] == pytest.approx(25 / 7)
    assert never["tokens a round"] == 1
    assert never["tokens a round, expected"] == 1
    # On a busy machine the prompt alone can take longer than the prompt with its few tokens.
    assert all(math.isfinite(row["speed-up"]) and row["S"] > 0 for row in report.rows)
    assert first.rows == report.rows[:1]  # a run that is cut short has shown its first rows
    assert [row["texts"] for row in report.rows] == ["1", "1"]  # the others had no time left
    assert any("REDUCED" in note for note in report.notes)
    assert {"device", "jax", "n", "format"} <= set(report.setting)
    assert report.setting["checkpoints"] == "T5-small"
    assert len(caplog.messages) == 3


def test_the_published_sizes_have_the_published_numbers_of_parameters():
    """T5 v1.1: 77 M, 248 M, 783 M and 11.1 B, embedding and head counted."""
    for size, millions in {"small": 77, "base": 248, "large": 783, "XXL": 11_135}.items():
        tensors = shapes._tensors(shapes.config_of(f"T5-{size}"))
        count = sum(math.prod(shape) for _, shape in tensors)
        assert count / 1e6 == pytest.approx(millions, rel=0.01)
