"""Claim: no bytes crash libedgespec's readers of manifests, tokenizers and saved sessions.

Clang's libFuzzer changes small ones, with the sanitizers of addresses and of undefined behaviour
(`make native-fuzz`); EDGESPEC_FUZZ_SECONDS is how long for each. What crashed is kept in the folder
that the failure names.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from native_library import NativeModel, runtime_library
from tokenizers_of_kinds import KINDS, of_kind

BUILD = Path(
    os.environ.get("EDGESPEC_NATIVE_FUZZ", Path(__file__).parents[2] / "build/native-fuzz")
)
SECONDS = int(os.environ.get("EDGESPEC_FUZZ_SECONDS", "5"))
LARGEST = 40_000  # bytes of a seed: libFuzzer's changes are small


@pytest.fixture
def seeds(tmp_path):
    folder = tmp_path / "seeds"
    folder.mkdir()
    return folder


@pytest.fixture(autouse=True, scope="module")
def fuzzers():
    if not (BUILD / "fuzz_tokenizer").exists():
        pytest.skip("the fuzzers are not built: make native-fuzz")


@pytest.fixture
def fuzz(seeds, tmp_path):
    """Runs the fuzzer of one reader from the seeds."""

    def run(reader: str, **given: object) -> None:
        crashes = tmp_path / "crashes"
        crashes.mkdir()
        limits = (f"-max_total_time={SECONDS}", "-timeout=60", "-rss_limit_mb=3000")
        command = [BUILD / f"fuzz_{reader}", *limits, f"-artifact_prefix={crashes}/", seeds]
        environment = (
            os.environ
            | {"TMPDIR": str(tmp_path)}
            | {name: str(value) for name, value in given.items()}
        )
        result = subprocess.run(
            command, capture_output=True, text=True, env=environment, check=False
        )
        assert result.returncode == 0, f"{crashes}\n{result.stderr[-4_000:]}"
        (runs,) = re.findall(r"^Done (\d+ runs in \d+ second)", result.stderr, re.M)
        print(f"{reader}: {runs}s")  # pytest -rP shows it

    return run


def test_of_manifests(fuzz, seeds, tiny_folder, pair_folder, chat_folder, eagle_folder):
    for number, folder in enumerate((tiny_folder, pair_folder, chat_folder, eagle_folder)):
        (seeds / str(number)).write_bytes((folder / "edgespec.json").read_bytes())
    fuzz("manifest")


def test_of_tokenizers(fuzz, seeds, tmp_path_factory):
    for number, kind in enumerate(KINDS):
        seed = of_kind(kind, tmp_path_factory.mktemp("kind")).to_str().encode() + b"\0A b <s> 12"
        if len(seed) < LARGEST:
            (seeds / str(number)).write_bytes(seed)
    assert len(list(seeds.iterdir())) > len(KINDS) // 2
    fuzz("tokenizer")


SAVED = (
    {"draft": 0},
    {"draft": 1, "temperature": 1.0, "logit_bias": {5: 1.0}, "min_tokens": 3},
    {"draft": 2, "gamma": 3, "stop": ["zz"], "stop_tokens": [9], "answers": [range(2, 4)]},
    {"draft": 1, "gamma": 3, "temperature": 0.8, "rule": "block", "logprobs": 1},
    {"draft": 3, "temperature": 0.8, "rule": "token"},
)


@pytest.mark.parametrize("kind", ["pair_folder", "eagle_folder"])
def test_of_saved_sessions(fuzz, seeds, kind, request):
    """An encoder-decoder's, and one whose draft reads its target's states."""
    folder = request.getfixturevalue(kind)
    model = NativeModel(folder, threads=1, allow_inexact=1)
    for number, options in enumerate(SAVED):
        session = model.session()
        if number:
            session.begin([5, 60, 7, 8, 60, 7], seed=number, max_new_tokens=20, **options)
            next(session.pieces())
        session.save(seeds / str(number))
    # ONNX Runtime keeps 2 KB of what a pair registers until the process ends.
    given = {"EDGESPEC_FUZZ_PAIR": folder, "EDGESPEC_FUZZ_RUNTIME": runtime_library()}
    fuzz("session", ASAN_OPTIONS="detect_leaks=0", **given)
