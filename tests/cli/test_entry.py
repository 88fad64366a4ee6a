"""Claim: the command starts fast and ends in one line from its first moment, whatever it is given.

Each test runs in a process of its own, as `python -m edgespec`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from command import run
from depth import one_in
from edgespec.artifact.readable_input import readable_twice
from edgespec.artifact.text_file import read_text
from edgespec.cli.commands.distill_command import distill
from edgespec.errors import UsageError

COMMAND = [sys.executable, "-m", "edgespec"]


def interrupted_at(
    module: str, *arguments: object, at_start: str = "default_int_handler"
) -> subprocess.CompletedProcess:
    """Runs a command that gets SIGINT when a module is about to be imported.

    Args:
        at_start: how Python handles SIGINT then. A shell's background job, such as these tests
            may be, ignores it; Python in the foreground has a handler.
    """
    code = f"""
import os, runpy, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.{at_start})
sys.meta_path.insert(0, Interrupting())
sys.argv = ["edgespec", *sys.argv[1:]]
runpy.run_module("edgespec", run_name="__main__")
"""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@one_in(2)
@pytest.mark.skipif(os.name != "posix", reason="Windows has no SIGINT to send")
@pytest.mark.parametrize(
    "module", ["click", "edgespec.cli.main", "numpy", "edgespec.pair.pair", "tokenizers"]
)
def test_ctrl_c_while_modules_load_is_one_line(tiny_folder, module):
    done = interrupted_at(module, "generate", tiny_folder, "abc")
    assert done.stderr.strip() == "edgespec: interrupted"
    assert done.stdout == ""
    assert done.returncode == 130


@pytest.mark.skipif(os.name != "posix", reason="Windows has no SIGINT to send")
@pytest.mark.parametrize("module", ["numpy._core.overrides", "onnxruntime.capi._pybind_state"])
def test_ctrl_c_while_c_code_imports_is_one_line(tiny_folder, module):
    """C code would replace a KeyboardInterrupt by an ImportError."""
    done = interrupted_at(module, "generate", tiny_folder, "abc")
    assert done.stderr.strip() == "edgespec: interrupted"
    assert done.returncode == 130


@pytest.mark.skipif(os.name != "posix", reason="Windows has no SIGINT to send")
def test_a_process_that_ignores_ctrl_c_still_ignores_it(tiny_folder):
    arguments = ["generate", tiny_folder, "abc", "-n", 3]
    done = interrupted_at("click", *arguments, at_start="SIG_IGN")
    assert done.returncode == 0
    assert done.stdout


@one_in(3)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that Linux has")
@pytest.mark.parametrize("arguments", [["--help"], ["generate", "--help"], ["--version"]], ids=str)
def test_help_on_a_full_disk_is_one_line(arguments):
    with open("/dev/full", "w") as full:
        done = subprocess.run([*COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 1
    assert done.stderr == b"edgespec: standard output: No space left on device\n"


def with_closed(streams: str, *arguments: object) -> subprocess.CompletedProcess:
    """Runs a command whose shell closed streams: ">&-", "<&- 2>&-"."""
    script = f'exec "$@" {streams}'
    command = ["sh", "-c", script, "sh", *COMMAND, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@one_in(2, turn=1)
@pytest.mark.skipif(os.name != "posix", reason="a shell's redirections")
@pytest.mark.parametrize("arguments", [["--help"], ["generate"]], ids=str)
def test_a_closed_standard_output_is_one_line(tiny_folder, arguments):
    name, *options = arguments
    given = [tiny_folder, "hi", "-n", 3] if name == "generate" else []
    done = with_closed(">&-", name, *given, *options)
    assert done.stderr == "edgespec: standard output: it is closed\n"
    assert done.returncode == 1


@one_in(2)
@pytest.mark.skipif(os.name != "posix", reason="a shell's redirections")
@pytest.mark.parametrize(("streams", "out"), [("2>&-", "-"), ("<&- >&- 2>&-", "out.jsonl")])
def test_what_is_written_is_the_same_whatever_streams_are_closed(
    tiny_folder, tmp_path, streams, out
):
    (tmp_path / "in.jsonl").write_text('{"prompt": "a", "max_tokens": 3, "temperature": 0}\n')
    file = Path("-") if out == "-" else tmp_path / out
    done = with_closed(streams, "batch", tiny_folder, tmp_path / "in.jsonl", "-o", file)
    assert (done.returncode, done.stderr) == (0, "")
    (line,) = (done.stdout if out == "-" else file.read_text()).splitlines()
    assert json.loads(line)["error"] is None


def test_a_closed_standard_input_is_one_line(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    dash = Path("-")
    for read in (lambda: read_text(dash), lambda: readable_twice(dash).__enter__()):
        with pytest.raises(UsageError, match="standard input is closed; give a file"):
            read()


@one_in(2)
@pytest.mark.skipif(os.name != "posix", reason="Windows has no bytes in arguments")
@pytest.mark.parametrize(
    "arguments",
    [
        [b"--\xff"],
        [b"gen\xff"],
        [b"generate", b"pair", b"caf\xe9"],
        [b"export", b"\xff", b"-o", b"x"],
        [b"serve", b"pair", b"--host", b"\xff"],
        [b"distill", b"x", b"--text", b"y", b"-o", b"\xff"],
    ],
    ids=str,
)
def test_an_argument_that_is_not_utf_8_is_one_line(arguments, tmp_path):
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, cwd=tmp_path)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(b"edgespec: argument ")
    assert b"not UTF-8" in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("threads", ["9" * 20, "100000", "0", "9" * 5000])
@pytest.mark.parametrize("command", ["generate", "export", "inspect", "tune", "bench", "serve"])
def test_more_threads_than_any_machine_has_are_refused_before_anything_is_done(command, threads):
    said = run(command, "nosuch", "--threads", threads, code=2).stderr
    assert said.splitlines()[-1].startswith("Error: Invalid value for '--threads'")
    assert len(said) < 1000


@pytest.mark.parametrize(
    "arguments",
    [
        ["--gamma", "x" * 5000],
        ["--gamma", "9" * 5000],
        ["--provider", "x" * 5000],
        ["-n", "-" + "9" * 4000],
        ["--rule", "x" * 5000],
        ["--temperature", "-" + "9" * 200],
        ["--" + "x" * 5000],
    ],
    ids=lambda arguments: arguments[0][:20],
)
def test_a_long_bad_value_is_not_repeated_in_full(arguments):
    assert len(run("generate", "nosuch", "hi", *arguments, code=2).stderr) < 1000


@pytest.mark.skipif(os.name != "posix", reason="Windows has other limits")
@pytest.mark.parametrize(
    "arguments", [["generate", "/" + "x" * 5000, "hi"], ["inspect", "/" + "x" * 5000]], ids=str
)
def test_a_path_that_is_too_long_is_not_repeated_in_full(arguments):
    (line,) = run(*arguments, code=1).stderr.splitlines()
    assert line.endswith("File name too long")
    assert len(line) < 1000


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["generate", "nosuch", "hi", "--top-p", "2"], "top_p is 2.0"),
        (["chat", "nosuch", "--seed", "-1"], "seed is -1"),
        (["chat", "nosuch", "--gamma", "x"], "gamma is 'x'"),
        (["generate", "nosuch", "hi", "--stop", ""], "a stop string is empty"),
        (["generate", "nosuch", "hi", "-n", "0"], "max_new_tokens is 0"),
        (["generate", "nosuch", "hi", "--greedy", "-t", "1"], "--greedy and --temperature"),
        (["tune", "nosuch", "--min-p", "2"], "min_p is 2.0"),
        (["tune", "nosuch", "--text", "missing.txt"], "missing.txt cannot be read"),
        (["bench", "nosuch", "--text", "missing.txt"], "missing.txt cannot be read"),
        (["serve", "nosuch", "--provider", "npu"], "no provider 'npu'"),
        (["generate", "nosuch", "hi", "--draft-provider", "npu"], "no provider 'npu'"),
        (["bench", "nosuch", "--top-k", "-1"], "top_k is -1"),
        (["export", "nosuch", "--target-format", "int3"], "no target format 'int3'"),
        (["export", "nosuch", "--draft-format", "int3"], "no draft format 'int3'"),
        (["export", "nosuch", "draft", "--no-draft"], "--no-draft"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_options_are_refused_before_a_model_is_looked_for(arguments, said):
    """The model does not exist, and the line is about the option."""
    (line,) = run(*arguments, code=2).stderr.splitlines()
    assert said in line
    assert "nosuch" not in line


def imported_by(*arguments: object) -> tuple[set[str], subprocess.CompletedProcess]:
    """What a command imports."""
    code = f"""
import runpy, sys
sys.argv = ["edgespec", *{list(map(str, arguments))!r}]
try:
    runpy.run_module("edgespec", run_name="__main__")
finally:
    print("modules:", *sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return set(done.stdout.rpartition("modules:")[2].split()), done


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["export", "--help"]], ids=str)
def test_help_loads_neither_numpy_nor_models(arguments):
    modules, done = imported_by(*arguments)
    assert "click" in modules
    assert not modules & {"numpy", "onnxruntime", "tokenizers", "onnx_ir", "torch", "rich"}
    assert done.returncode == 0


def test_distill_misses_its_target_before_it_loads_torch(tmp_path):
    (tmp_path / "prompts.txt").write_text("hi\n")
    options = ["--text", tmp_path / "prompts.txt", "--steps", 1, "-o", tmp_path / "draft"]
    modules, done = imported_by("distill", tmp_path / "nosuch", *options)
    assert "nosuch': no such folder" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.returncode == 1
    assert "torch" not in modules


def test_every_field_of_a_drafts_shape_is_an_option_of_distill():
    """With --start each of them is refused by name."""
    plan = pytest.importorskip("edgespec_distill.plan", reason="torch is not installed")
    assert set(plan.SHAPE) <= {parameter.name for parameter in distill.params}
