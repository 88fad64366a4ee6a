"""Claim: a session that maps kept packed weights has the bits of one that packs them, and a file
that does not hold for it is not used."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from depth import deep
from edgespec.artifact.manifest import read_manifest
from edgespec.device.device import Device
from edgespec.device.kernels import installed_kernels
from edgespec.pair.opening.runtime import open_model
from edgespec_export.export_pair import export_pair
from edgespec_runtimes.ort.processor import packed_weights

KERNELS = installed_kernels()
pytestmark = pytest.mark.skipif(
    KERNELS is None or not KERNELS.keep_packed, reason="there are no kernels that keep weights"
)
FORMATS = ["int8", "int4", "int4-int8", "int8-groups", "fp16", "bf16-products"]
TOKENS = list(b"The same bits, wherever the weights lie.")


@pytest.fixture(scope="module")
def exported(tiny_checkpoints, tmp_path_factory) -> Path:
    """The tiny pair in all formats whose weights the kernels pack."""
    target, draft = map(str, tiny_checkpoints)
    folder = tmp_path_factory.mktemp("packed") / "pair"
    export_pair(target, draft, folder, target_formats=FORMATS, measure=False)
    return folder


@pytest.fixture
def folder(exported, tmp_path, monkeypatch) -> Path:
    """A copy whose weights are not too small to be kept."""
    monkeypatch.setattr(packed_weights, "LEAST_BYTES", 0)
    return Path(shutil.copytree(exported, tmp_path / "pair"))


def logits(folder: Path, variant: str) -> np.ndarray:
    """Of a prompt's rows; top tokens, which another table of the head gives, must be theirs."""
    model = open_model(folder, read_manifest(folder).target, variant, device=Device(1))
    scored = model.score(TOKENS)
    if model.returns_top_tokens:
        model.rewind(0)
        best = model.top_tokens(TOKENS).tokens
        np.testing.assert_array_equal(best[:, 0], scored.argmax(-1))
    return scored


def kept(folder: Path, variant: str) -> list[Path]:
    graph = folder / read_manifest(folder).target.variants[variant].graphs["decoder"]
    return sorted((graph.parent / packed_weights.FOLDER).glob("*"))


def same(left: np.ndarray, right: np.ndarray) -> bool:
    return np.array_equal(left.view(np.uint32), right.view(np.uint32))


@pytest.mark.parametrize("variant", FORMATS)
def test_mapped_weights_have_the_bits_of_packed_ones(folder, variant, monkeypatch):
    monkeypatch.setenv(packed_weights.SWITCH, "0")
    packed = logits(folder, variant)
    assert kept(folder, variant) == []
    monkeypatch.delenv(packed_weights.SWITCH)
    recorded = logits(folder, variant)
    (file,) = kept(folder, variant)
    written = file.read_bytes()
    mapped = logits(folder, variant)
    assert same(packed, recorded)
    assert same(packed, mapped)
    assert file.read_bytes() == written


@pytest.mark.parametrize("variant", FORMATS)
def test_the_weights_of_the_file_are_those_that_are_read(folder, variant):
    """A changed number changes logits: what is compared above was read from the file."""
    before = logits(folder, variant)
    (file,) = kept(folder, variant)
    content = bytearray(file.read_bytes())
    start = 4096  # of the first weights
    content[start : start + 512] = bytes(byte ^ 0x05 for byte in content[start : start + 512])
    file.write_bytes(content)
    assert not same(logits(folder, variant), before)


def test_a_file_that_is_cut_short_or_of_something_else_is_written_again(folder):
    before = logits(folder, "int8")
    (file,) = kept(folder, "int8")
    whole = file.read_bytes()
    lines = whole.split(b"\n")
    damages = [whole[:size] for size in (0, 1, 40, len(lines[0]) + 20, 4095, 4096, len(whole) - 1)]
    damages += [whole + b"\0" * 64, b"x" + whole[1:], whole[:40] + b"y" + whole[41:]]
    for i in range(3, 6):  # sizes: of the header and of the first weights
        digits = bytes(ord("9") if 48 <= byte < 57 else byte for byte in lines[i])
        damages.append(whole.replace(b"\n" + lines[i], b"\n" + digits, 1))
    for damaged in damages:
        assert damaged != whole
        file.write_bytes(damaged)
        assert same(logits(folder, "int8"), before)
        assert file.read_bytes() == whole


def test_other_weights_have_another_file_and_the_old_one_goes(folder):
    logits(folder, "int8")
    (first,) = kept(folder, "int8")
    weights = first.parent.parent / "weights.data"
    content = bytearray(weights.read_bytes())
    content[1000:2000] = bytes(1000)
    weights.write_bytes(content)
    os.utime(weights, ns=(1, 1))
    changed = logits(folder, "int8")
    (second,) = kept(folder, "int8")
    assert second != first
    assert same(logits(folder, "int8"), changed)


def test_a_mapped_file_that_is_removed_still_serves_who_maps_it(folder):
    before = logits(folder, "int8")
    model = open_model(folder, read_manifest(folder).target, "int8", device=Device(1))
    for file in kept(folder, "int8"):
        file.unlink()
    assert same(model.score(TOKENS), before)


def test_where_nothing_can_be_written_weights_are_packed(folder):
    graph = folder / read_manifest(folder).target.variants["int8"].graphs["decoder"]
    (graph.parent / packed_weights.FOLDER).write_text("no folder")
    before = logits(folder, "int8")
    assert same(logits(folder, "int8"), before)


def test_a_disk_that_is_nearly_full_is_left_alone(folder, monkeypatch):
    usage = shutil.disk_usage(folder)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=10))
    logits(folder, "int8")
    assert kept(folder, "int8") == []


def test_small_weights_are_not_kept(folder, monkeypatch):
    monkeypatch.undo()
    logits(folder, "int8")
    assert kept(folder, "int8") == []


# --- memory --------------------------------------------------------------------------------------

READER = """
import json, sys
from pathlib import Path
from edgespec_runtimes.ort.processor import packed_weights
packed_weights.LEAST_BYTES = 0
import edgespec
folder, form = sys.argv[1:]
pair = edgespec.load(folder, threads=1, target_format=form, allow_inexact=True)
pair.generate("The same pages", max_new_tokens=20, chat=False, temperature=1.0, seed=1)
print(flush=True)
sys.stdin.readline()  # until the other one has read them, too
found, inside = {"Rss": 0, "Private_Dirty": 0, "Anonymous": 0, "Pss": 0}, False
for line in Path("/proc/self/smaps").read_text().splitlines():
    name, *rest = line.split()
    if "-" in name and not name.endswith(":"):
        inside = len(rest) == 5 and "/target/" in rest[-1] and "/packed/" in rest[-1]
    elif inside and name[:-1] in found:
        found[name[:-1]] += int(rest[0])
print(json.dumps(found), flush=True)
sys.stdin.readline()
"""


@deep
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who has a page")
@pytest.mark.parametrize("variant", FORMATS)
def test_processes_share_the_pages_of_the_weights(folder, variant):
    """None has a copy of its own, and each counts half of them."""
    logits(folder, variant)
    (file,) = kept(folder, variant)
    command = [sys.executable, "-c", READER, str(folder), variant]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as one, subprocess.Popen(command, **pipes) as other:
        try:
            for process in (one, other):
                assert process.stdout.readline() == "\n"
            found = []
            for process in (one, other):
                process.stdin.write("\n")
                process.stdin.flush()
                found.append(json.loads(process.stdout.readline()))
        finally:
            for process in (one, other):
                process.kill()
    for memory in found:
        assert memory["Private_Dirty"] == memory["Anonymous"] == 0
        assert memory["Rss"] * 1024 > file.stat().st_size / 2
        assert memory["Pss"] <= memory["Rss"] * 0.6
