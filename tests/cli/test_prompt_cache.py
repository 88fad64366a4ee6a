"""Claim: --prompt-cache changes no text: its file is made, used, and refused in one line."""

from __future__ import annotations

import json

import pytest

from command import run

PROMPT = "You keep the lighthouse at the end of the mole. " * 5
OPTIONS = ["--threads", 1, "-n", 12, "--json"]


def ids(*arguments):
    return json.loads(run("generate", *arguments, *OPTIONS).stdout)["token_ids"]


def test_a_file_is_made_and_then_used(chat_folder, tmp_path):
    file = tmp_path / "kept"
    for prompt in (PROMPT, PROMPT + "Who comes?", PROMPT[:100]):
        expected = ids(chat_folder, prompt)
        assert ids(chat_folder, prompt, "--prompt-cache", file) == expected
    system = ["--system", PROMPT, "--answer-start", "It is"]
    assert ids(chat_folder, "Who?", *system) == ids(
        chat_folder, "Who?", *system, "--prompt-cache", tmp_path / "system"
    )


def test_a_file_of_another_prompt_is_said(chat_folder, tmp_path):
    """All prompts of a chat begin alike, so a few tokens in common are not what was meant."""
    file = tmp_path / "kept"
    for prompt, is_said in (
        (PROMPT, False),
        (PROMPT + "Who comes?", False),
        (PROMPT[:60], False),
        ("Another manual. " * 20, True),
    ):
        done = run("generate", chat_folder, prompt, *OPTIONS, "--prompt-cache", file)
        assert ("keeps another beginning" in done.stderr) == is_said, prompt


def test_a_file_of_another_pair_is_one_line(chat_folder, tiny_folder, tmp_path):
    run("generate", tiny_folder, "A prompt", *OPTIONS, "--prompt-cache", tmp_path / "kept")
    kept = (tmp_path / "kept").read_bytes()
    refused = run(
        "generate", chat_folder, PROMPT, *OPTIONS, "--prompt-cache", tmp_path / "kept", code=1
    )
    assert len(refused.stderr.splitlines()) == 1
    assert "another model" in refused.stderr
    assert (tmp_path / "kept").read_bytes() == kept


@pytest.mark.parametrize("command", ["generate", "serve"])
def test_an_empty_path_is_one_line_before_anything_is_loaded(command, tmp_path, monkeypatch):
    """A shell's variable that is not set; the folder of the process was not meant."""
    monkeypatch.chdir(tmp_path)
    refused = run(command, "nosuch", "--prompt-cache", "", code=2).stderr
    assert refused == "edgespec: --prompt-cache is empty; give a path, or leave it out\n"
    assert list(tmp_path.iterdir()) == []
