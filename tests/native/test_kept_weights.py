"""Claim: libedgespec maps the packed weights that Python keeps beside a graph, and keeps the same
file itself; the bits are those of weights that are packed again."""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

import edgespec
from edgespec.device.kernels import installed_kernels
from edgespec_export.export_pair import export_pair
from native_library import NativeModel

PROMPT = [5, 60, 7, 8, 30]
LEAST = 4_000_000  # bytes: weights of less are not kept


@pytest.fixture(scope="module")
def exported(tiny_checkpoints, tmp_path_factory) -> Path:
    """The tiny pair in a format whose weights the kernels pack; a file beside each graph makes them
    large enough to be kept."""
    target, draft = map(str, tiny_checkpoints)
    folder = tmp_path_factory.mktemp("kept") / "pair"
    formats = {"target_formats": ["int8"], "draft_formats": ["int8"]}
    export_pair(target, draft, folder, **formats, threads=1)
    for graph in list(folder.rglob("decoder.onnx")):
        with (graph.parent / "weights-more.data").open("wb") as more:
            more.truncate(LEAST)
    return folder


@pytest.fixture
def folder(exported, hooks, tmp_path, monkeypatch) -> Path:
    """A copy, used with the library's instruction set: a file holds for one."""
    hooks.edgespec_hook_target.restype = ctypes.c_char_p
    target = hooks.edgespec_hook_target().decode()
    monkeypatch.setenv("EDGESPEC_KERNELS", target)
    kernels = installed_kernels()
    if kernels is None or kernels.target != target:
        pytest.skip(f"Python has no kernels of {target}")
    return Path(shutil.copytree(exported, tmp_path / "pair"))


def kept(folder: Path) -> list[Path]:
    return sorted(folder.rglob("packed/*"))


def state(files: Sequence[Path]) -> list[tuple[str, int, int]]:
    return [(str(file), file.stat().st_mtime_ns, file.stat().st_ino) for file in files]


def text(folder: Path) -> list[int]:
    session = NativeModel(folder, threads=1).session()
    return session.text(PROMPT, gamma=3, max_new_tokens=24, ignore_eos=1)


def text_of_python(folder: Path) -> list[int]:
    pair = edgespec.load(folder, threads=1)
    return pair.generate(PROMPT, gamma=3, max_new_tokens=24, ignore_eos=True).token_ids


def test_what_one_keeps_the_other_maps(folder, monkeypatch):
    monkeypatch.setenv("EDGESPEC_PACKED", "0")
    packed = text(folder)
    assert kept(folder) == []
    monkeypatch.delenv("EDGESPEC_PACKED")
    for keeps, maps in ((text, text_of_python), (text_of_python, text)):
        assert keeps(folder) == packed
        files = kept(folder)
        assert len(files) == 2  # of target and draft
        written = state(files)
        assert maps(folder) == packed
        assert keeps(folder) == packed
        assert state(kept(folder)) == written
        for file in files:
            file.unlink()


def test_the_weights_of_the_file_are_those_that_are_read(folder):
    before = text(folder)
    for file in kept(folder):
        content = bytearray(file.read_bytes())
        for start in range(4096, len(content), 64):
            content[start] ^= 0x55
        file.write_bytes(content)
    assert text(folder) != before


def test_a_file_that_holds_no_longer_is_written_again(folder):
    before = text(folder)
    first = kept(folder)
    for file in first:
        file.write_bytes(file.read_bytes()[:-64])
    assert text(folder) == before
    assert text_of_python(folder) == before
    for weights in folder.rglob("weights-more.data"):
        os.utime(weights, ns=(1, 1))
    assert text(folder) == before
    assert len(kept(folder)) == len(first)
    assert not set(kept(folder)) & set(first)
    written = state(kept(folder))
    assert text_of_python(folder) == before
    assert state(kept(folder)) == written


def test_a_folder_that_cannot_be_written_is_no_error(folder):
    for graph in folder.rglob("decoder.onnx"):
        (graph.parent / "packed").write_text("no folder")
    assert text(folder) == text(folder) == text_of_python(folder)
    for graph in folder.rglob("decoder.onnx"):
        (graph.parent / "packed").unlink()
        (graph.parent / "packed").symlink_to("/proc/nothing")  # no folder can be made there
    assert text(folder) == text_of_python(folder)


def test_a_mapped_file_that_is_removed_still_serves_who_maps_it(folder):
    text(folder)
    model = NativeModel(folder, threads=1)
    for file in kept(folder):
        file.unlink()
    session = model.session()
    assert session.text(PROMPT, gamma=3, max_new_tokens=24, ignore_eos=1) == text(folder)
