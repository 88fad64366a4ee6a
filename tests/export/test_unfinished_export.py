"""Claim: an export that does not come to its end leaves everything as it was, and is continued.

A pair appears whole or not at all, and the old one stays until the new one is complete.
"""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from depth import one_in
from edgespec.artifact.manifest import MANIFEST
from edgespec_export.export_pair import export_pair
from refusals import contents, export, failure, load, usage


def interrupting(done: int):
    """A progress callback that raises KeyboardInterrupt after `done` tensors."""

    def begin(what, size):
        def advance(count):
            nonlocal done
            done -= 1
            if done < 0:
                raise KeyboardInterrupt

        return advance

    return begin


@pytest.mark.parametrize("tensors", [0, 5, 25])
@pytest.mark.parametrize("replace", [False, True])
def test_an_interrupted_export_leaves_everything_as_it_was(
    tiny_checkpoints, own_pair, tensors, replace
):
    folder = own_pair if replace else own_pair.with_name("new")
    before = contents(own_pair.parent)
    with pytest.raises(KeyboardInterrupt):
        export(*tiny_checkpoints, folder, replace=replace, progress=interrupting(tensors))
    after = contents(own_pair.parent)
    assert {name: data for name, data in after.items() if not name.startswith(".")} == before
    assert folder.exists() == replace
    for path in own_pair.parent.glob(".*"):
        failure(load, path)


@pytest.mark.parametrize("tensors", [3, 7, 30])
def test_an_interrupted_export_continues_after_its_last_tensor(
    tiny_checkpoints, own_pair, tensors, monkeypatch
):
    """The result is the same, byte by byte, and finished tensors are not read again."""
    from edgespec_export.onnx_graph.external_data import WeightFile

    folder = own_pair.with_name("new")
    read = []
    original = WeightFile.checkpoint_tensor

    def reading(self, name):
        read.append((self._path.parent.parent.name, name))
        return original(self, name)

    monkeypatch.setattr(WeightFile, "checkpoint_tensor", reading)
    with pytest.raises(KeyboardInterrupt):
        export(*tiny_checkpoints, folder, progress=interrupting(tensors))
    first = read.copy()
    export(*tiny_checkpoints, folder)
    assert contents(folder) == contents(own_pair)
    assert first
    assert not set(first) & set(read[len(first) :])
    assert {path.name for path in own_pair.parent.iterdir()} == {"pair", "new"}


@one_in(2)
@pytest.mark.parametrize("tensors", [1, 2, 8])
def test_an_interrupted_int8_export_gives_the_same_bytes(tiny_checkpoints, tmp_path, tensors):
    """Also between a matrix and its scales."""
    formats = {"target_formats": ["int8"], "draft_formats": ["int8"], "measure": False}
    export(*tiny_checkpoints, tmp_path / "at once", **formats)
    with pytest.raises(KeyboardInterrupt):
        export(*tiny_checkpoints, tmp_path / "new", progress=interrupting(tensors), **formats)
    export(*tiny_checkpoints, tmp_path / "new", **formats)
    assert contents(tmp_path / "new") == contents(tmp_path / "at once")


def test_an_export_has_its_name_when_the_disk_has_its_bytes(
    tiny_checkpoints, tmp_path, monkeypatch
):
    """Otherwise a crash could leave a folder of the right name with empty files."""
    synced = set()

    def note(descriptor):
        synced.add(os.fstat(descriptor).st_ino)
        assert not (tmp_path / "pair").exists()

    monkeypatch.setattr(os, "fsync", note)
    export(*tiny_checkpoints, tmp_path / "pair")
    files = [path for path in (tmp_path / "pair").rglob("*") if path.is_file()]
    assert {path.stat().st_ino for path in files} <= synced


def test_a_second_export_to_a_folder_that_is_being_written_is_refused(tiny_checkpoints, own_pair):
    """Otherwise each would use the other's unfinished files."""
    folder = own_pair.with_name("new")
    said = []

    def begin(label, total):
        if not said:
            said.append(usage(export, *tiny_checkpoints, folder))
        return lambda count: None

    export(*tiny_checkpoints, folder, progress=begin)
    assert "another process is writing" in said[0]
    assert {path.name for path in own_pair.parent.iterdir()} == {"pair", "new"}
    assert contents(folder) == contents(own_pair)


def test_an_export_does_not_continue_one_of_other_checkpoints(tiny_checkpoints, own_pair):
    folder = own_pair.with_name("new")
    target, draft = tiny_checkpoints
    with pytest.raises(KeyboardInterrupt):
        export(draft, target, folder, progress=interrupting(7))
    export(target, draft, folder)
    assert contents(folder) == contents(own_pair)


KILLED = """
import os, signal, sys
from edgespec_export.export_pair import export_pair
from edgespec.pair.opening.invariance_cache import INVARIANCE_FILE

def begin(what, size):
    def advance(count):
        if what.startswith("draft"):
            os.kill(os.getpid(), signal.SIGKILL)
    return advance

export_pair(*sys.argv[1:], replace=True, threads=1, progress=begin)
"""


@pytest.mark.skipif(os.name != "posix", reason="Windows has no SIGKILL")
def test_a_killed_export_leaves_nothing_loadable_and_the_next_one_cleans_up(
    tiny_checkpoints, own_pair
):
    before = contents(own_pair)
    for folder in (own_pair.with_name("new"), own_pair):
        command = [sys.executable, "-c", KILLED, *map(str, tiny_checkpoints), str(folder)]
        killed = subprocess.run(command, check=False, capture_output=True)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not own_pair.with_name("new").exists()
    assert contents(own_pair) == before
    left = [path for path in own_pair.parent.iterdir() if path.name.startswith(".")]
    assert left
    for path in left:
        failure(load, path)
    for folder in (own_pair.with_name("new"), own_pair):
        export(*tiny_checkpoints, folder, replace=True)
        load(folder)
    assert {path.name for path in own_pair.parent.iterdir()} == {"pair", "new"}


def test_a_machine_that_stopped_between_the_two_renames_has_lost_no_pair(
    tiny_checkpoints, own_pair
):
    before = contents(own_pair)
    own_pair.rename(own_pair.with_name(".pair.replaced"))
    assert "--force" in usage(export, *tiny_checkpoints, own_pair)
    assert contents(own_pair) == before


def test_a_second_rename_that_fails_brings_the_old_pair_back(
    tiny_checkpoints, own_pair, monkeypatch
):
    before = contents(own_pair.parent)
    rename = Path.rename

    def failing(path, new):
        if path.name.endswith(".partial"):
            raise OSError(errno.EIO, "Input/output error")
        return rename(path, new)

    monkeypatch.setattr(Path, "rename", failing)
    assert "Input/output error" in failure(export, *tiny_checkpoints, own_pair, replace=True)
    assert contents(own_pair.parent) == before


class FullDisk:
    """A file that accepts `room` bytes and then reports a full disk."""

    def __init__(self, file, room):
        self._file, self._room = file, room

    def __getattr__(self, name):
        return getattr(self._file, name)

    def write(self, data):
        self._room -= len(data)
        if self._room < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self._file.write(data)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._file.close()


@pytest.mark.parametrize("name", ["tokenizer.json", "weights.data", f".{MANIFEST}.partial"])
@pytest.mark.parametrize("replace", [False, True])
def test_a_full_disk_is_one_line_and_leaves_everything_as_it_was(
    tiny_checkpoints, own_pair, monkeypatch, name, replace
):
    folder = own_pair if replace else own_pair.with_name("new")
    before = contents(own_pair.parent)
    opened = Path.open

    def open_(path, mode="r", *arguments, **options):
        file = opened(path, mode, *arguments, **options)
        return FullDisk(file, 1000) if path.name == name and "w" in mode else file

    monkeypatch.setattr(Path, "open", open_)
    said = failure(export, *tiny_checkpoints, folder, replace=replace)
    assert "the disk is full" in said
    assert str(folder) in said
    monkeypatch.undo()
    assert contents(own_pair.parent) == before


@pytest.mark.skipif(sys.platform != "linux", reason="a limit on file sizes, as Linux has it")
def test_a_file_that_cannot_grow_any_further_is_one_line(tiny_checkpoints, tmp_path):
    limit = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    limit += "resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))\n"
    code = limit + "from edgespec.cli.main import main; main()"
    command = [sys.executable, "-c", code, "export", *map(str, tiny_checkpoints)]
    run = subprocess.run(
        [*command, "-o", str(tmp_path / "pair")], check=False, capture_output=True, text=True
    )
    assert run.returncode == 1
    assert "could not be written" in run.stderr.splitlines()[-1]
    assert "Traceback" not in run.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"target_formats": ["int3"]}, "'int3'"),
        ({"draft_formats": ["int3"]}, "'int3'"),
        ({"cache_formats": ["int3"]}, "'int3'"),
        ({"cache_formats": []}, "no cache format"),
        ({}, "not an exported pair"),
    ],
    ids=str,
)
def test_options_are_checked_before_a_model_is_looked_up(tmp_path, monkeypatch, options, said):
    """Otherwise a wrong format would be found only after a download of 44 GB."""
    looked_up = []
    monkeypatch.setattr("edgespec_export.checkpoint.sources.resolve", looked_up.append)
    folder = tmp_path / "pair"
    folder.mkdir()
    (folder / "mine.txt").touch()
    assert said in usage(export_pair, "t5-xxl", None, folder, **options)
    assert looked_up == []


def test_a_missing_torch_is_found_before_a_model_is_looked_up(tmp_path, monkeypatch):
    looked_up = []
    monkeypatch.setattr("edgespec_export.checkpoint.sources.resolve", looked_up.append)
    monkeypatch.setitem(sys.modules, "edgespec_export.verify", None)
    said = failure(export_pair, "t5-xxl", None, tmp_path / "pair", verify=True)
    assert re.search(r"pip install .*\[torch\]", said)
    assert looked_up == []


@pytest.mark.parametrize("options", [{"target_formats": ()}, {"draft_formats": ["int3"]}], ids=str)
def test_a_format_that_does_not_exist_lists_those_that_do(tiny_checkpoints, tmp_path, options):
    assert "fp32" in usage(export, *tiny_checkpoints, tmp_path / "pair", **options)
    assert list(tmp_path.iterdir()) == []
