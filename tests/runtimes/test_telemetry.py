"""Claim: ONNX Runtime reports nothing, unless the user says so."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

LOADS = "import {module}, onnxruntime, os; print(os.environ['ORT_DISABLE_TELEMETRY'])"


@pytest.mark.parametrize(
    ("module", "given", "found"),
    [
        ("edgespec_runtimes", {"ORT_DISABLE_TELEMETRY": "0"}, "0"),
        ("edgespec_export.calibration.moments", {}, "1"),
    ],
)
def test_nothing_is_kept_at_home_or_said_for_it(module, given, found, tmp_path):
    own = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    home = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    command = [sys.executable, "-c", LOADS.format(module=module)]
    done = subprocess.run(command, env=own | home | given, capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, found, "")
    if found == "1":
        assert list(tmp_path.iterdir()) == []
