"""Claim: many streams at once, with clients that leave and clients that read slowly, give no error,
no different text and no cache that stays occupied. `benchmarks/serve_load.py` for some seconds;
without times."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from edgespec.device.kernels import installed_kernels

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from serve_load import Load, RequestError, measured, started

STREAMS = 16
PROMPTS = [f"{number}: Once upon a time there was a server." for number in range(12)]


@pytest.fixture
def server(chat_folder):
    if installed_kernels() is None:
        pytest.skip("needs kernels")
    pytest.importorskip("starlette")
    pytest.importorskip("llguidance")
    process, at = started(chat_folder, STREAMS, threads=1, options=["--target-format", "int8"])
    yield process, at
    process.terminate()
    process.communicate(timeout=60)


def test_a_server_under_load_makes_no_error_and_leaks_no_cache(server):
    process, at = server
    load = Load(at, PROMPTS, tokens=40)
    row = asyncio.run(measured(load, process.pid, STREAMS, seconds=6, pause=0.5))
    assert row["errors"] == []
    assert row["leaked caches"] == 0
    assert load.texts
    assert {"reads", "leaves", "slow"} == row["requests"].keys()
    assert row["seconds to the first token, newcomers"]
    assert row["rows of a target call"] > 2


def test_a_refused_request_is_an_error_of_the_load(server):
    process, at = server
    load = Load(at, ["long " * 400], tokens=40)
    with pytest.raises(RequestError, match="the cache holds"):
        asyncio.run(measured(load, process.pid, STREAMS, seconds=1, pause=0.5))
