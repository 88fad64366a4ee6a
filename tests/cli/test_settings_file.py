"""Claim: the settings file gives options that the command line does not, and is never guessed at;
shells complete commands, options and names of exported models."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from command import EDGESPEC, run
from depth import one_in
from edgespec.cli.settings_file import settings_path

ONE = ("--threads", 1)


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """Writes the file."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("EDGESPEC_CONFIG", raising=False)
    path = tmp_path / "edgespec" / "settings.toml"
    path.parent.mkdir()
    assert settings_path() == path
    return path.write_text


def generated(folder, *options):
    made = run("generate", folder, "abc", *ONE, "--json", *options).stdout
    return json.loads(made)


def test_what_is_given_first_decides(tiny_folder, settings):
    settings("[all]\nmax-new-tokens = 5\nseed = 3\n[generate]\nmax-new-tokens = 4\n")
    assert len(generated(tiny_folder, "--ignore-eos", "-n", 3)["token_ids"]) == 3
    made = generated(tiny_folder, "--ignore-eos")
    assert (len(made["token_ids"]), made["seed"]) == (4, 3)


def test_lists_switches_and_what_contradicts_the_command_line(tiny_folder, settings):
    settings('[generate]\ntemperature = 0.9\nignore-eos = true\ndraft = "lookup"\nstop = ["@@"]\n')
    drawn = generated(tiny_folder, "-n", 6, "--seed", 1)
    greedy = generated(tiny_folder, "-n", 6, "--greedy")
    assert greedy["token_ids"] == generated(tiny_folder, "-n", 6, "-t", 0)["token_ids"]
    assert drawn["token_ids"] != greedy["token_ids"]
    assert generated(tiny_folder, "-n", 6, "--no-draft")["settings"]["draft"] == "none"
    both = run("generate", tiny_folder, "x", "--greedy", "-t", 1, code=2).stderr
    assert "contradict each other" in both


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("[generate]\ntemprature = 1", 2, r"has 'temprature' in [generate].*mean 'temperature'"),
        ("[all]\nthread = 1", 2, r"has 'thread' in [all], .*did you mean 'threads'"),
        ("[genrate]\nthreads = 1", 2, "no table of a command; did you mean 'generate'"),
        ("threads = 1", 2, "which is no table of a command"),
        ("threads =", 1, "is no TOML"),
        ('[generate]\ntemperature = "hot"', 2, "Invalid value for '-t' / '--temperature'"),
        ("[generate]\nmin-p = 3", 2, "min_p is 3"),
    ],
)
def test_a_mistake_is_one_line_with_the_file(tiny_folder, settings, text, code, message):
    settings(text)
    said = run("generate", tiny_folder, "x", code=code).stderr
    first, *others = message.split(".*")
    assert first in said, said
    assert all(other in said for other in others), said


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_that_the_shell_takes(shell, tmp_path):
    script = run("completion", shell).stdout
    assert "_EDGESPEC_COMPLETE" in script
    if found := shutil.which(shell):
        file = tmp_path / "script"
        file.write_text(script)
        subprocess.run([found, "-n", str(file)], check=True)


@one_in(2)
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("edgespec comp", {"compare", "completion"}),
        ("edgespec generate --top-", {"--top-k", "--top-p", "--top-n-sigma", "--top-logprobs"}),
        ("edgespec generate kept", {"kept--lookup"}),
    ],
)
def test_commands_options_and_kept_models_are_completed(tmp_path, monkeypatch, words, expected):
    folder = tmp_path / "pairs" / "kept--lookup"
    folder.mkdir(parents=True)
    (folder / "edgespec.json").write_text("{}")
    monkeypatch.setenv("EDGESPEC_HOME", str(tmp_path))
    monkeypatch.setenv("_EDGESPEC_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    done = subprocess.run([EDGESPEC], capture_output=True, text=True, check=False)
    assert {line.partition(",")[2] for line in done.stdout.splitlines()} == expected
