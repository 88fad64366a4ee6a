"""Claim: whatever is wrong, the command line ends with one line on standard error.

Exit code 2 is what the caller can mend by asking differently (`UsageError`); 1 is about a file, a
model or a machine. Neither shows a traceback.
"""

from __future__ import annotations

import shutil

import pytest
from click.testing import CliRunner

from edgespec.artifact.manifest import MANIFEST
from edgespec.cli.main import main
from edgespec.errors import shortened
from refusals import PROMPT, WEIGHTS, truncated


def run(*arguments: object, **options):
    return CliRunner().invoke(main, [str(argument) for argument in arguments], **options)


def stderr_line(result, code: int) -> str:
    """The only line of a failure: no output, no traceback."""
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    assert isinstance(result.exception, SystemExit)
    (line,) = result.stderr.splitlines()
    assert line.startswith("edgespec: ")
    return line


@pytest.mark.parametrize(
    "options",
    [
        ["--temperature", "-1"],
        ["--temperature", "nan"],
        ["--top-k", "-1"],
        ["--top-p", "0"],
        ["--min-p", "2"],
        ["--gamma", "-1"],
        ["--gamma", "x"],
        ["--gamma", "1.5"],
        ["--gamma", "9" * 5000],
        ["--seed", "-1"],
        ["--max-new-tokens", "0"],
        ["--stop", ""],
        ["--chat"],
        ["--logprobs"],
        ["--show-draft", "--json"],
        ["--draft", "model", "--no-draft"],
        ["--capacity", "0"],
        ["--capacity", "10000000000000"],
        ["--file", "x"],
    ],
    ids=lambda options: shortened(" ".join(options)),
)
def test_a_bad_option_is_one_line_and_exit_code_2(tiny_folder, options):
    stderr_line(run("generate", tiny_folder, PROMPT, *options), 2)


def test_no_memory_is_estimated_for_a_capacity_that_the_pair_cannot_have(tiny_folder):
    line = stderr_line(run("inspect", tiny_folder, "--capacity", "10000000000000"), 2)
    assert line.startswith("edgespec: capacity is 10000000000000; ")


def test_a_server_with_an_empty_key_never_starts(tmp_path):
    line = stderr_line(run("serve", tmp_path / "absent", "--api-key", ""), 2)
    assert line == "edgespec: the API key is empty; give one, or leave --api-key out"


@pytest.mark.parametrize(
    "options",
    [["--rule", "luck"], ["--draft", "oracle"], ["--top-k", "x"], ["--threads", "0"], ["--nosuch"]],
    ids=" ".join,
)
def test_what_the_parser_refuses_ends_with_one_line_and_exit_code_2(tiny_folder, options):
    result = run("generate", tiny_folder, PROMPT, *options)
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1].startswith("Error: ")


@pytest.mark.parametrize("command", ["generate", "inspect"])
def test_a_bad_pair_is_one_line_and_exit_code_1(own_pair, command):
    prompt = [PROMPT] if command == "generate" else []
    truncated(own_pair / WEIGHTS)
    assert WEIGHTS in stderr_line(run(command, own_pair, *prompt), 1)
    (own_pair / MANIFEST).write_text("{")
    assert MANIFEST in stderr_line(run(command, own_pair, *prompt), 1)
    shutil.rmtree(own_pair)
    assert "edgespec export" in stderr_line(run(command, own_pair, *prompt), 1)


def test_a_bad_checkpoint_is_one_line_and_exit_code_1(own_checkpoints, tmp_path):
    target, draft = own_checkpoints
    (draft / "model.safetensors").unlink()
    result = run("export", target, draft, "-o", tmp_path / "pair")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1].startswith("edgespec: ")
    assert "Traceback" not in result.stderr


def test_a_bad_output_folder_is_one_line_and_exit_code_2(tiny_checkpoints, own_pair, tmp_path):
    assert "--force" in stderr_line(run("export", *tiny_checkpoints, "-o", own_pair), 2)
    (tmp_path / "other" / "x").mkdir(parents=True)
    result = run("export", *tiny_checkpoints, "-o", tmp_path / "other", "--force")
    assert "not an exported pair" in stderr_line(result, 2)


def test_ctrl_c_is_one_line_and_exit_code_130(tiny_checkpoints, tmp_path, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("edgespec_export.export_pair.export_pair", interrupted)
    result = run("export", *tiny_checkpoints, "-o", tmp_path / "pair")
    assert result.exit_code == 130
    assert result.stderr.strip() == "edgespec: interrupted"
