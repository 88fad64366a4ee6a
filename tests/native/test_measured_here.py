"""Claim: a target that nobody has measured on this machine is measured by libedgespec as by Python:
of each kind of pair it finds what the exporter found."""

from __future__ import annotations

import json
import shutil

import pytest

from depth import deep
from kinds_of_pairs import READING, export_reading, export_recurrent
from looking_large import forget_findings
from native_library import NativeModel

FOUND = ("is_row_invariant", "min_rows", "max_rows", "candidates", "texts")
KINDS = {
    "int8_folder": None,
    "whisper_folder": None,  # on noise
    "own head": export_recurrent,  # a state goes on with one token, so there are no candidates
    "another model": export_recurrent,
    **dict.fromkeys(READING, export_reading),
}
OFTEN = ("int8_folder", "whisper_folder", "own head")


@pytest.mark.parametrize(
    "kind", [name if name in OFTEN else pytest.param(name, marks=deep) for name in KINDS]
)
def test_a_target_is_measured_as_by_the_exporter(built, kind, request, tmp_path):
    export = KINDS[kind]
    exported = export(kind, tmp_path) if export else request.getfixturevalue(kind)
    folder = shutil.copytree(exported, tmp_path / "forgotten")
    expected = forget_findings(folder)
    NativeModel(folder, threads=1)
    (entry,) = json.loads((folder / "row_invariance.json").read_text("utf-8"))
    found = entry["row_invariance"]
    assert {name: found[name] for name in FOUND} == {name: expected[name] for name in FOUND}
    assert found["is_row_invariant"]
