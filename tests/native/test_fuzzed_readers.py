"""Claim: no bytes crash libedgespec's readers of manifests, tokenizers, maps between two of them,
speech formats and saved sessions.

Clang's libFuzzer changes small ones, with the sanitizers of addresses and of undefined behaviour
(`make native-fuzz`); EDGESPEC_FUZZ_SECONDS is how long for each. What crashed is kept in the folder
that the failure names.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kinds_of_pairs import draft_vocabulary, export_recurrent, write_draft_vocabulary
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
    if not (BUILD / "fuzz_vocabulary").exists():
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


@pytest.fixture(scope="module")
def recurrent_folder(tmp_path_factory):
    """A target whose states a session keeps, and a draft that has states too."""
    return export_recurrent("another model", tmp_path_factory.mktemp("recurrent"))


@pytest.fixture(scope="module")
def two_tokenizers(int8_folder, tmp_path_factory):
    """A draft with another tokenizer than its target's."""
    folder = Path(shutil.copytree(int8_folder, tmp_path_factory.mktemp("two") / "pair"))
    write_draft_vocabulary(folder)
    return folder


MANIFESTS = (
    "tiny_folder",
    "pair_folder",
    "chat_folder",
    "eagle_folder",
    "whisper_folder",
    "recurrent_folder",
    "two_tokenizers",
)


def test_of_manifests(fuzz, seeds, request):
    for name in MANIFESTS:
        manifest = request.getfixturevalue(name) / "edgespec.json"
        (seeds / name).write_bytes(manifest.read_bytes())
    fuzz("manifest")


def test_of_speech_formats(fuzz, seeds, whisper_folder):
    seed = json.loads((whisper_folder / "target/speech.json").read_text("utf-8"))
    (seeds / "several languages").write_text(json.dumps(seed))
    seed.update(languages={}, transcribe=None, translate=None, previous=None, no_speech=None)
    (seeds / "English").write_text(json.dumps(seed))
    fuzz("speech")


def test_of_maps_between_tokenizers(fuzz, seeds):
    size = 272  # the fuzzer's
    ids = list(range(size))
    (seeds / "spelled").write_text(json.dumps(draft_vocabulary(size)))
    (seeds / "some").write_text(json.dumps({"inputs": ids, "outputs": ids}))
    fuzz("vocabulary")


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


@pytest.mark.parametrize(
    "kind", ["pair_folder", "eagle_folder", "recurrent_folder", "two_tokenizers"]
)
def test_of_saved_sessions(fuzz, seeds, kind, request):
    """An encoder-decoder's, one whose draft reads its target's states, …"""
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
