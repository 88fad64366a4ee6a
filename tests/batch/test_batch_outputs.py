"""Claim: a batch's answers go where -o says, and nothing else of the user's is changed.

Outputs that are links, pipes, devices, descriptors of a shell, or private files; a full disk.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from batch_files import lines_of, texts_of, written
from command import EDGESPEC, run
from depth import one_in
from edgespec.artifact.writing.stream_output import is_stream
from edgespec.batch.result_lines import ResultLines, errors_path, partial_path

GREEDY = {"temperature": 0, "max_tokens": 3}
GOOD, BAD = {"prompt": "ab", **GREEDY}, {"prompt": 7}
FAST = ("--threads", 1)
posix = pytest.mark.skipif(os.name != "posix", reason="Windows has other links and pipes")


@pytest.fixture
def source(tmp_path) -> Path:
    return written(tmp_path / "in.jsonl", GOOD, BAD, GOOD)


def names(stdout: bytes | str) -> list[str]:
    """The names of the lines that are answered, in the order of the answers."""
    return [json.loads(line)["custom_id"] for line in stdout.splitlines()]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# --- links and modes ------------------------------------------------------------------------------


@posix
@pytest.mark.parametrize("exists", [True, False], ids=["to a file", "to none"])
def test_a_link_stays_and_its_file_has_the_answers(tiny_folder, source, tmp_path, exists):
    (tmp_path / "far").mkdir()
    real, link = tmp_path / "far" / "real.jsonl", tmp_path / "link.jsonl"
    if exists:
        real.write_text("old")
    link.symlink_to(Path("far") / "real.jsonl")
    done = run("batch", tiny_folder, source, "-o", link, "--force", "--json", *FAST)
    assert link.is_symlink()
    assert not real.is_symlink()
    assert texts_of(real).keys() == {"line-1", "line-3"}
    assert json.loads(done.stdout)["errors"] == str(errors_path(real))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["far", "in.jsonl", "link.jsonl"]
    assert len(list(real.parent.iterdir())) == 2, "no lock and no part is left"


@posix
@pytest.mark.parametrize("private", [0o600, 0o444], ids=oct)
def test_a_file_that_is_replaced_keeps_its_mode_and_lends_it_to_the_others(
    tiny_folder, source, tmp_path, private, monkeypatch
):
    out = tmp_path / "out.jsonl"
    out.write_text("old")
    out.chmod(private)
    modes, add = [], ResultLines.add
    monkeypatch.setattr(
        ResultLines,
        "add",
        lambda results, answer: modes.append(mode(partial_path(out))) or add(results, answer),
    )
    run("batch", tiny_folder, source, "-o", out, "--force", *FAST)
    assert mode(out) == mode(errors_path(out)) == private
    assert set(modes) == {private | stat.S_IWUSR}, "also while the batch runs"


@pytest.mark.parametrize("force", [(), ("--force",)], ids=["", "--force"])
def test_the_input_is_never_the_output(tiny_folder, source, force):
    before = source.read_bytes()
    result = run("batch", tiny_folder, source, "-o", source, *force, code=2)
    assert f"{source} is the input" in result.stderr
    assert source.read_bytes() == before


def test_a_folder_is_refused_before_anything_is_answered(tiny_folder, source, tmp_path):
    result = run("batch", tiny_folder, source, "-o", tmp_path, "--force", code=2)
    assert f"{tmp_path} is a folder" in result.stderr
    result = run("batch", tiny_folder, source, "-o", tmp_path / "none" / "out", code=2)
    assert f"{tmp_path / 'none'} is no folder" in result.stderr


def test_a_file_of_the_user_s_is_not_taken_for_that_of_the_errors(tiny_folder, source, tmp_path):
    out = tmp_path / "out.jsonl"
    errors_path(out).write_text("mine")
    result = run("batch", tiny_folder, source, "-o", out, *FAST, code=2)
    assert f"{errors_path(out)} exists already" in result.stderr
    assert errors_path(out).read_text() == "mine"


def test_a_file_of_the_user_s_is_not_taken_for_answers_that_were_cut_off(
    tiny_folder, source, tmp_path
):
    out = tmp_path / "out.jsonl"
    partial_path(out).write_text("a download")
    run("batch", tiny_folder, source, "-o", out, *FAST, code=2)
    assert partial_path(out).read_text() == "a download"


def test_half_a_surrogate_pair_in_a_name_is_written_as_json_s_escape(tiny_folder, tmp_path):
    out = tmp_path / "out.jsonl"
    line = b'{"custom_id": "\\ud800", "prompt": "x", "max_tokens": 3}'
    run("batch", tiny_folder, written(tmp_path / "in", line), "-o", out, *FAST)
    (answer,) = lines_of(out)
    assert answer["custom_id"] == "\ud800"


# --- streams --------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [(), ("--any-order",)], ids=["", "--any-order"])
def test_a_dash_is_standard_output(tiny_folder, source, tmp_path, monkeypatch, order):
    monkeypatch.chdir(tmp_path)
    done = run("batch", tiny_folder, source, "-o", "-", *order, *FAST)
    in_order = ["line-1", "line-2", "line-3"]
    assert names(done.stdout) == in_order if not order else sorted(names(done.stdout)) == in_order
    assert "1 lines failed" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]
    refused = run("batch", tiny_folder, source, "-o", "-", "--json", code=2)
    assert "both go to standard output" in refused.stderr


def test_a_dash_is_standard_input(tiny_folder, source, tmp_path):
    out = tmp_path / "out.jsonl"
    run("batch", tiny_folder, "-", "-o", out, *FAST, input=source.read_bytes())
    assert texts_of(out).keys() == {"line-1", "line-3"}


@posix
def test_a_pipe_s_reader_gets_the_answers_and_it_stays_a_pipe(tiny_folder, source, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for out in ("pipe", "link"):
        with subprocess.Popen(["cat", tmp_path / "pipe"], stdout=subprocess.PIPE) as reader:
            run("batch", tiny_folder, source, "-o", tmp_path / out, "--force", *FAST)
            assert names(reader.communicate()[0]) == ["line-1", "line-2", "line-3"]
    assert stat.S_ISFIFO((tmp_path / "pipe").lstat().st_mode)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl", "link", "pipe"]


@posix
def test_a_shell_s_substitutions_are_read_and_written(tiny_folder, source, tmp_path):
    script = (
        f"'{EDGESPEC}' batch '{tiny_folder}' <(cat '{source}') -o >(cat > '{tmp_path}/sub') "
        f"--threads 1; code=$?; wait; exit $code"
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert names((tmp_path / "sub").read_bytes()) == ["line-1", "line-2", "line-3"]


@posix
def test_a_descriptor_of_a_file_that_is_appended_to_is_appended_to(tiny_folder, source, tmp_path):
    log = tmp_path / "log"
    log.write_text('{"custom_id": "earlier"}\n')
    code = "import sys; from edgespec.__main__ import main; sys.argv[0] = 'edgespec'; main()"
    arguments = ["batch", tiny_folder, source, "-o", "/dev/fd/{}", "--force", *FAST]
    with log.open("ab") as file:
        arguments[4] = f"/dev/fd/{file.fileno()}"
        command = [sys.executable, "-c", code, *map(str, arguments)]
        done = subprocess.run(command, pass_fds=[file.fileno()], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert names(log.read_bytes()) == ["earlier", "line-1", "line-2", "line-3"]


@posix
def test_what_is_a_stream(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/null")
    (tmp_path / "to-stdout").symlink_to("/dev/stdout")
    (tmp_path / "1").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    streams = ["-", "/dev/null", "/dev/stdout", "/dev/fd/77", "pipe", "link", "to-stdout"]
    assert all(is_stream(tmp_path / name if name != "-" else Path(name)) for name in streams)
    assert not any(is_stream(tmp_path / name) for name in ("1", "none", "loop", "."))


# --- a disk that is full --------------------------------------------------------------------------

LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop(1)),) * 2)
from edgespec.__main__ import main
sys.argv[0] = "edgespec"
main()
"""


@one_in(2, turn=1)
@posix
@pytest.mark.parametrize("room", [0, 30, 1000], ids=["empty", "torn first line", "some answers"])
def test_a_batch_that_had_no_room_names_its_file_and_goes_on(tiny_folder, source, tmp_path, room):
    """A limit on the size of files is as a full disk: each write is cut off or refused."""
    lines = [GOOD] * 5
    source, out = written(tmp_path / "in.jsonl", *lines), tmp_path / "out.jsonl"
    command = ["batch", tiny_folder, source, "-o", out, *FAST]
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(room), *map(str, command)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"edgespec: {partial_path(out)}: File too large"
    assert partial_path(out).stat().st_size == room
    assert texts_of(out) if out.exists() else True
    run(*command)
    assert len(texts_of(out)) == len(lines)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that Linux has")
def test_a_full_device_is_named(tiny_folder, source):
    command = [EDGESPEC, "batch", tiny_folder, source, "-o", "/dev/full", *map(str, FAST)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "edgespec: /dev/full: No space left on device"
