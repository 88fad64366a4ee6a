"""Claim: sessions of one model on several threads make the texts of one thread, whoever cancels,
forks, saves or closes them meanwhile.

The program is compiled with the library: `make native-sanitize-threads` runs it with the sanitizer
of threads. EDGESPEC_THREADS_SECONDS is for how long.
"""

from __future__ import annotations

import os
import subprocess

from native_library import BUILD, runtime_library

SECONDS = os.environ.get("EDGESPEC_THREADS_SECONDS", "2")


def test_every_thread_makes_its_text(tiny_folder, tmp_path):
    command = [BUILD / "check_threads", tiny_folder, runtime_library(), tmp_path, SECONDS]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout == "all texts were the same\n"
