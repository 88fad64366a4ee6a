"""Claim: no bytes crash libedgespec's readers of manifests and tokenizers.

Clang's libFuzzer changes small ones, with the sanitizers of addresses and of undefined behaviour
(`make native-fuzz`); EDGESPEC_FUZZ_SECONDS is how long for each. What crashed is kept in the folder
that the failure names.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

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

    def run(reader: str) -> None:
        crashes = tmp_path / "crashes"
        crashes.mkdir()
        limits = (f"-max_total_time={SECONDS}", "-timeout=60", "-rss_limit_mb=3000")
        command = [BUILD / f"fuzz_{reader}", *limits, f"-artifact_prefix={crashes}/", seeds]
        environment = os.environ | {"TMPDIR": str(tmp_path)}
        result = subprocess.run(
            command, capture_output=True, text=True, env=environment, check=False
        )
        assert result.returncode == 0, f"{crashes}\n{result.stderr[-4_000:]}"
        assert "INITED" in result.stderr  # it ran

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
