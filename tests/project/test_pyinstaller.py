"""Claim: PyInstaller makes a program of edgespec without being told anything: it finds the modules
that are imported late, and the kernels."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import edgespec
from depth import deep
from edgespec.device.kernels import missing_kernels
from edgespec.pyinstaller import hook_dirs

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import sys
import edgespec
from edgespec.device.kernels import missing_kernels
made = edgespec.load(sys.argv[1]).generate("a small text", max_new_tokens=8)
print(list(made.token_ids), missing_kernels(), "torch" in sys.modules)
"""
NOT_OURS = ("torch", "transformers", "jax", "ray", "matplotlib", "onnx", "hypothesis", "pytest")


def test_pyinstaller_is_told_where_the_hooks_are():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = project["entry-points"]["pyinstaller40"]["hook-dirs"]
    assert named == f"{hook_dirs.__module__}:{hook_dirs.__name__}"
    (folder,) = map(Path, hook_dirs())
    hooks = {path.name for path in folder.glob("hook-*.py")}
    assert hooks == {"hook-edgespec.py", "hook-edgespec_kernels.py"}


@deep
def test_a_program_writes_the_texts_and_has_the_kernels(tiny_folder, tmp_path):
    pytest.importorskip("PyInstaller")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    left_out = [part for name in NOT_OURS for part in ("--exclude-module", name)]
    # The checkout's metadata may be older than the entry point.
    hooks = ["--additional-hooks-dir", *hook_dirs(), "--log-level", "ERROR"]
    command = [sys.executable, "-m", "PyInstaller", *hooks, *left_out, str(program)]
    subprocess.run(command, cwd=tmp_path, check=True)
    made = edgespec.load(tiny_folder).generate("a small text", max_new_tokens=8)
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    run = [tmp_path / "dist/program/program", tiny_folder]
    written = subprocess.run(run, env=alone, capture_output=True, text=True, check=True).stdout
    assert written.strip() == f"{list(made.token_ids)} {missing_kernels()} False"
