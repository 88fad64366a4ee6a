"""examples/smollm2_draft/average.py: the mean of two drafts, tensor by tensor."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

SCRIPT = Path(__file__).parents[2] / "examples" / "smollm2_draft" / "average.py"


def write_draft(folder, rng, size=4):
    folder.mkdir()
    tensors = {
        "table": rng.normal(size=(3, size)).astype(np.float16),
        "norm": rng.normal(size=size).astype(np.float32),
    }
    save_file(tensors, folder / "model.safetensors")
    record = {"edgespec": "0.2.0", "target": "T", "plan": {"layers": 1}, "result": {"after": 0.6}}
    (folder / "distillation.json").write_text(json.dumps(record))
    for name in ("config.json", "README.md"):
        (folder / name).write_text(f"{name} of {folder.name}")
    return tensors


def average(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["average.py", *map(str, arguments)])
    runpy.run_path(str(SCRIPT), run_name="__main__")


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_each_weight_is_the_mean_in_its_own_type(tmp_path, monkeypatch, rng):
    before, after = (write_draft(tmp_path / name, rng) for name in ("before", "after"))
    average(monkeypatch, tmp_path / "before", tmp_path / "after", tmp_path / "mean")
    mean = load_file(tmp_path / "mean" / "model.safetensors")
    assert mean.keys() == before.keys()
    for name, tensor in mean.items():
        assert tensor.dtype == before[name].dtype
        exact = (before[name].astype(np.float64) + after[name].astype(np.float64)) / 2
        np.testing.assert_allclose(tensor, exact, rtol=np.finfo(tensor.dtype).eps, atol=1e-6)


def test_the_record_claims_no_figures_of_a_part(tmp_path, monkeypatch, rng):
    for name in ("before", "after"):
        write_draft(tmp_path / name, rng)
    average(monkeypatch, tmp_path / "before", tmp_path / "after", tmp_path / "mean")
    record = json.loads((tmp_path / "mean" / "distillation.json").read_text())
    assert record.keys() == {"edgespec", "target", "plan", "mean_with"}
    assert record["mean_with"]["result"] == {"after": 0.6}
    names = {path.name for path in (tmp_path / "mean").iterdir()}
    assert names == {"config.json", "distillation.json", "model.safetensors"}


def test_drafts_of_other_shapes_are_refused_in_one_line(tmp_path, monkeypatch, rng):
    write_draft(tmp_path / "before", rng)
    write_draft(tmp_path / "after", rng, size=8)
    with pytest.raises(SystemExit, match="other tensors; give a draft and its successor"):
        average(monkeypatch, tmp_path / "before", tmp_path / "after", tmp_path / "mean")
    assert not (tmp_path / "mean").exists()
