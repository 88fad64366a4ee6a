"""Claim: a file or folder that is replaced stays what it is to others: a link, its mode."""

from __future__ import annotations

import errno
import os
import stat
import threading
from pathlib import Path

import pytest

from edgespec.artifact.atomic_file import whole_file
from edgespec.artifact.manifest import MANIFEST
from edgespec.artifact.typed_json import write_json
from edgespec.artifact.writing import partial_file
from edgespec.artifact.writing.stream_output import write_bytes
from edgespec.errors import UsageError
from edgespec_export.staging import staged

pytestmark = pytest.mark.skipif(os.name != "posix", reason="Windows has other links and modes")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("private", [0o600, 0o444, 0o755], ids=oct)
def test_a_file_behind_links_is_replaced_and_keeps_its_mode(tmp_path, private):
    (tmp_path / "far").mkdir()
    real = tmp_path / "far" / "real.json"
    real.write_text("old")
    real.chmod(private)
    (tmp_path / "far" / "second").symlink_to("real.json")
    (tmp_path / "first").symlink_to(tmp_path / "far" / "second")
    write_json({"new": 1}, tmp_path / "first")
    assert '"new": 1' in real.read_text()
    assert mode(real) == private
    assert (tmp_path / "first").is_symlink()
    assert (tmp_path / "far" / "second").is_symlink()
    assert {path.name for path in real.parent.iterdir()} == {"real.json", "second"}


def test_what_is_written_is_as_private_as_what_it_replaces(tmp_path):
    file = tmp_path / "private"
    file.touch(0o600)
    with whole_file(file) as aside:
        aside.write_text("new")
        assert mode(aside) == 0o600


def test_a_new_file_has_the_mode_that_files_have(tmp_path):
    (tmp_path / "usual").write_text("")
    write_bytes(b"new", tmp_path / "new")
    assert mode(tmp_path / "new") == mode(tmp_path / "usual")


def test_what_lies_where_the_temporary_file_goes_is_not_written_through(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / ".out.partial").symlink_to(victim)
    write_bytes(b"new", tmp_path / "out")
    assert victim.read_text() == "mine"
    assert (tmp_path / "out").read_bytes() == b"new"
    assert not (tmp_path / "out").is_symlink()


def test_writers_at_once_do_not_take_each_others_parts(tmp_path):
    file = tmp_path / "out"
    with whole_file(file) as first:
        first.write_text("the first")
        with whole_file(file) as second:
            second.write_text("the second")
            assert first.read_text() == "the first"
        assert file.read_text() == "the second"
        with pytest.raises(OSError, match="full"), whole_file(file) as third:
            raise OSError(errno.ENOSPC, "full", str(third))
    assert file.read_text() == "the first"
    assert os.listdir(tmp_path) == ["out"]


def test_a_reader_finds_a_whole_file_whatever_writers_do(tmp_path):
    file, wrong = tmp_path / "out", []

    def write(letter):
        try:
            for _ in range(40):
                with whole_file(file) as aside, aside.open("w") as part:
                    part.writelines([letter * 1000] * 5)
                if file.read_text() not in ("a" * 5000, "b" * 5000, "c" * 5000):
                    wrong.append(letter)
        except OSError as error:
            wrong.append(error)

    threads = [threading.Thread(target=write, args=[letter]) for letter in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert os.listdir(tmp_path) == ["out"]


def test_what_a_killed_writer_left_is_no_part_of_the_next_file(tmp_path):
    left = tmp_path / ".out.partial"
    left.write_text("much that was begun")
    left.chmod(0o600)
    with whole_file(tmp_path / "out") as aside:
        assert aside == left
        assert aside.read_bytes() == b""
    (tmp_path / "usual").touch()
    assert mode(tmp_path / "out") == mode(tmp_path / "usual")


@pytest.mark.parametrize(
    ("locked", "claim"),
    [
        (lambda _: True, test_writers_at_once_do_not_take_each_others_parts),
        (lambda _: False, test_what_a_killed_writer_left_is_no_part_of_the_next_file),
    ],
    ids=["never", "always"],
)
def test_a_lock_that_is_not_asked_is_seen(tmp_path, monkeypatch, locked, claim):
    """Mutants: nobody else ever has a file locked, or always."""
    monkeypatch.setattr(partial_file, "_lock", locked)
    with pytest.raises((AssertionError, OSError)):
        claim(tmp_path)


def test_a_pipe_or_a_folder_in_place_of_a_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        with pytest.raises(OSError, match="it is no ordinary file") as refused:
            write_json({}, tmp_path / name)
        assert refused.value.filename == str(tmp_path / name)


def test_a_file_that_cannot_be_renamed_over_is_written_in_place(tmp_path, monkeypatch):
    """As one that is mounted into a container."""

    def busy(*_):
        raise OSError(errno.EBUSY, "Device or resource busy")

    (tmp_path / "mounted").write_text("old")
    monkeypatch.setattr(Path, "replace", busy)
    write_bytes(b"new", tmp_path / "mounted")
    assert (tmp_path / "mounted").read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["mounted"]


def test_an_error_without_a_name_names_the_file(tmp_path):
    with pytest.raises(OSError, match="No space") as full, whole_file(tmp_path / "out"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert full.value.filename == str(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


# --- folders --------------------------------------------------------------------------------------


def write_folder(folder: Path, text: str) -> None:
    with staged(folder, replace=True, recipe=text) as aside:
        assert not folder.exists() or mode(aside) & 0o077 == mode(folder) & 0o077
        (aside / MANIFEST).write_text(text)


def test_a_folder_behind_a_link_is_replaced_and_keeps_its_mode(tmp_path):
    real, link = tmp_path / "far" / "real", tmp_path / "link"
    real.mkdir(parents=True)
    (real / MANIFEST).write_text("old")
    real.chmod(0o700)
    link.symlink_to(real)
    write_folder(link, "new")
    assert link.is_symlink()
    assert (real / MANIFEST).read_text() == "new"
    assert mode(real) == 0o700
    assert [path.name for path in real.parent.iterdir()] == ["real"]


@pytest.mark.parametrize("kind", ["file", "pipe", "device"])
def test_what_is_no_folder_is_refused_and_nothing_is_made_beside_it(tmp_path, kind):
    out = tmp_path / "out"
    if kind == "file":
        out.write_text("mine")
    elif kind == "pipe":
        os.mkfifo(out)
    else:
        out.symlink_to("/dev/null")
    with pytest.raises(UsageError, match="is no folder"):
        write_folder(out, "new")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_folder_that_is_a_mount_is_refused_before_the_work(monkeypatch, tmp_path):
    monkeypatch.setattr(os.path, "ismount", lambda path: path == tmp_path)
    with pytest.raises(UsageError, match="is mounted, and cannot be replaced; give a folder in it"):
        write_folder(tmp_path, "new")


def test_an_error_names_the_file_that_was_asked_for(tmp_path):
    (tmp_path / "file").touch()
    for folder in ("absent", "file"):
        asked = tmp_path / folder / "out"
        with pytest.raises((FileNotFoundError, NotADirectoryError)) as failed:
            write_bytes(b"new", asked)
        assert str(failed.value.filename) == str(asked)
