"""Claim: what a pair takes when its caches are full is known before it is loaded, and said where a
machine has less; memory of a cache is taken as it is written."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

import edgespec
from command import run
from depth import deep
from edgespec.artifact.manifest import read_manifest
from edgespec.device import memory_limit
from edgespec.errors import UsageError
from edgespec.pair.opening import memory_estimate
from edgespec.pair.opening.memory_estimate import estimated_memory

MB = 1_000_000
linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what is resident")
FULL = """
import sys, edgespec
folder, form = sys.argv[1:]
pair = edgespec.load(folder, threads=1, target_format=form)
pages = lambda: int(open("/proc/self/statm").read().split()[1])
room = pair.target.capacity - 20
options = {"ignore_eos": True, "chat": False, "temperature": 1.0, "seed": 1}
prompt = (pair.encode("The house by the river is small. ", chat=False) * room)[:room // 2]
pair.generate(prompt, max_new_tokens=room - len(prompt), **options)
print(4096 * pages())
"""


def resident() -> int:
    return 4096 * int(Path("/proc/self/statm").read_text().split()[1])


def estimate(folder, form, capacity, texts=1):
    manifest = read_manifest(folder)
    draft = None if manifest.draft is None else next(iter(manifest.draft.variants))
    return estimated_memory(manifest, (form, draft), capacity, texts)


@pytest.mark.parametrize("form", ["fp32", "int8"])
def test_a_position_is_what_the_caches_have_of_it(chat_folder, form):
    pair = edgespec.load(chat_folder, threads=1, target_format=form)
    of_each = [
        array[:, :, 0].nbytes
        for model in (pair.target, pair.draft)
        for array in model.cache.values()
    ]
    found = estimate(chat_folder, form, 500, texts=3)
    assert found.position == sum(of_each)
    assert found.caches == 3 * 500 * sum(of_each)
    assert found.total == found.programs + found.weights + found.caches


def test_a_source_has_positions_too(pair, pair_folder):
    """Of the shipped pair: keys and values of both models, and of what their encoders return."""
    pair.generate("A house.", max_new_tokens=9, draft="model", gamma=3)
    own = sum(
        array[:, :, 0].nbytes
        for model in (pair.target, pair.draft)
        for array in [*model.cache.values(), *model.cross_attention().values()]
    )
    assert estimate(pair_folder, "fp32", 1).position == own


@linux
def test_a_large_cache_takes_memory_only_for_what_is_written(pair_folder):
    pair = edgespec.load(pair_folder, threads=1, capacity=100_000)
    whole = sum(array.nbytes for array in pair.target.cache.values())
    before = resident()
    pair.generate("A house by the river.", max_new_tokens=20)
    assert whole > 1000 * MB
    assert resident() - before < 60 * MB


@deep
@linux
@pytest.mark.parametrize("form", ["fp32"])
def test_it_is_true_within_a_tenth(pair_folder, form):
    """Of the shipped pair; benchmarks/memory.py says it of others."""
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(pair_folder), form],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    capacity = read_manifest(pair_folder).target.capacity
    assert int(done.stdout) == pytest.approx(estimate(pair_folder, form, capacity).total, rel=0.1)


# --- where there is less -------------------------------------------------------------------------


@pytest.fixture
def little(monkeypatch, chat_folder) -> int:
    """Room for the chat pair with 600 of its 1 024 positions."""
    limit = estimate(chat_folder, "fp32", 600).total
    monkeypatch.setattr(memory_estimate, "memory_limit", lambda: limit)
    return limit


def test_a_capacity_that_does_not_fit_is_refused_with_the_most_that_does(chat_folder, little):
    with pytest.raises(UsageError, match="give capacity 600 or less") as error:
        edgespec.load(chat_folder, threads=1, target_format="fp32", capacity=601)
    assert "\n" not in str(error.value)
    pair = edgespec.load(chat_folder, threads=1, target_format="fp32", capacity=600)
    assert pair.target.capacity == 600


def test_a_default_that_does_not_fit_is_said_and_loaded(chat_folder, little, caplog):
    with caplog.at_level(logging.WARNING, "edgespec"):
        edgespec.load(chat_folder, threads=1, target_format="fp32")
    assert "give capacity 600 or less" in caplog.text


def test_weights_that_do_not_fit_name_another_way_out(chat_folder, monkeypatch):
    monkeypatch.setattr(memory_estimate, "memory_limit", lambda: 10 * MB)
    with pytest.raises(UsageError, match="take a smaller format or model"):
        edgespec.load(chat_folder, threads=1, capacity=8)


def test_a_server_counts_its_texts_and_its_other_pairs(chat_folder, monkeypatch):
    limit = estimate(chat_folder, "int8", 1024, texts=4).total
    monkeypatch.setattr(memory_estimate, "memory_limit", lambda: limit)
    options = ["--port", 0, "--threads", 1, "--target-format", "int8"]
    refused = run("serve", chat_folder, *options, "--texts", 5, code=2)
    assert "or fewer texts" in refused.stderr.splitlines()[-1]
    two = run("serve", f"a={chat_folder}", f"b={chat_folder}", *options, "--texts", 3, code=2)
    assert "MB left here" in two.stderr.splitlines()[-1]


def test_inspect_says_it(chat_folder):
    found = json.loads(run("inspect", chat_folder, "--json", "--capacity", 300).stdout)["memory"]
    expected = estimate(chat_folder, "fp32", 300)
    assert found == expected.to_dict()
    line = f"memory: {estimate(chat_folder, 'fp32', 1024, texts=8)}"
    assert line in run("inspect", chat_folder, "--texts", 8).stdout.splitlines()


def test_a_container_has_its_own_limit(monkeypatch, tmp_path):
    whole = memory_limit.memory_limit()
    (tmp_path / "max").write_text("max\n")
    (tmp_path / "less").write_text("4096\n")
    monkeypatch.setattr(memory_limit, "CONTAINER_LIMITS", [tmp_path / "max", tmp_path / "none"])
    assert whole is None or memory_limit.memory_limit() >= whole
    monkeypatch.setattr(memory_limit, "CONTAINER_LIMITS", [tmp_path / "max", tmp_path / "less"])
    assert memory_limit.memory_limit() == 4096
