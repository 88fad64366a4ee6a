"""Claim: sessions of one model on several threads make the texts of one thread, whoever cancels,
forks, saves or closes them meanwhile.

The program is compiled with the library: `make native-sanitize-threads` runs it with the sanitizer
of threads. EDGESPEC_THREADS_SECONDS is for how long.
"""

from __future__ import annotations

import os
import subprocess

import pytest

from depth import deep
from kinds_of_pairs import export_reading, export_recurrent
from native_library import BUILD, runtime_library

SECONDS = os.environ.get("EDGESPEC_THREADS_SECONDS", "2")


KINDS = {
    "tiny_folder": None,
    "eagle_folder": None,
    "t5_eagle_folder": None,
    "own head": export_recurrent,
    "another model": export_recurrent,
    "shared_encoder": export_reading,
    "dspark": export_reading,
    "assistant": export_reading,
}


@pytest.mark.parametrize(
    "kind", [kind if kind == "tiny_folder" else pytest.param(kind, marks=deep) for kind in KINDS]
)
def test_every_thread_makes_its_text(kind, request, tmp_path):
    export = KINDS[kind]
    folder = export(kind, tmp_path) if export else request.getfixturevalue(kind)
    command = [BUILD / "check_threads", folder, runtime_library(), tmp_path, SECONDS]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout == "all texts were the same\n"
