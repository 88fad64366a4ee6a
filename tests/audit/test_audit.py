"""Claim: an audit finds what a program's greedy text depends on and from which token on, and finds
nothing in a server whose texts are exact."""

from __future__ import annotations

import json
import sys
import threading

import pytest

from command import run
from edgespec.audit.answerers import CommandAnswerer
from edgespec.audit.checks_of_texts import audited, first_difference
from edgespec.errors import EdgespecError, UsageError

LENGTH = "length of a call"
PROMPTS = ["one", "two", "three", "four"]


class Text:
    """Makes a text of ten pieces; `changed` says what a call gets instead."""

    name = "a program"

    def __init__(self, changed=lambda prompt, calls, at_once: None):
        self._changed = changed
        self._calls = 0
        self._at_once = 0
        self._lock = threading.Lock()

    def __call__(self, prompt):
        with self._lock:
            self._calls += 1
            self._at_once += 1
        threading.Event().wait(0.002)  # others begin meanwhile
        begun = prompt.count(" ")
        pieces = [f" {i}" for i in range(begun, begun + 10)]
        changed = self._changed(prompt, self._calls, self._at_once)
        with self._lock:
            self._at_once -= 1
        return [*pieces[:2], " x", *pieces[3:]] if changed else pieces


def found(answerer, **options):
    return {finding.check: finding for finding in audited(answerer, PROMPTS, **options)}


def test_a_program_whose_text_depends_on_nothing():
    findings = found(Text(), other=Text())
    assert list(findings) == ["repeat", "neighbours", "length of a call", "other"]
    assert all((finding.texts, finding.differ) == (4, 0) for finding in findings.values())


@pytest.mark.parametrize(
    ("check", "changed"),
    [
        ("repeat", lambda prompt, calls, at_once: calls == 6),
        ("neighbours", lambda prompt, calls, at_once: at_once > 1),
        ("length of a call", lambda prompt, calls, at_once: " " in prompt and "two" in prompt),
    ],
)
def test_what_changes_the_text_is_found_and_nothing_else(check, changed):
    findings = found(Text(changed))
    differing = [name for name, finding in findings.items() if finding.differ]
    assert differing == [check]
    if check != "length of a call":
        assert set(findings[check].first) == {2}
        assert findings[check].example["other"].startswith(" x")


def test_another_program_is_compared():
    findings = found(Text(), other=Text(lambda prompt, calls, at_once: prompt == "three"))
    assert findings["other"].first == (2,)
    assert findings["other"].example["prompt"] == "three"


@pytest.mark.parametrize(
    ("one", "other", "first"),
    [
        (["a", "b"], ["a", "b"], None),
        (["a", "b"], ["ab"], None),
        (["a", "b"], ["a", "c"], 1),
        (["ab", "c"], ["ax"], 0),
        (["a", "b", "c"], ["ab"], 2),
        ([], ["a"], 0),
    ],
)
def test_the_first_piece_that_differs(one, other, first):
    assert first_difference(one, other) == first


def test_commands_are_asked_with_the_prompt():
    program = [sys.executable, "-c", "import sys; print(sys.argv[1] + ' there')", "{}"]
    assert "".join(CommandAnswerer(program)("hello")) == "hello there\n"
    reads = [sys.executable, "-c", "print(input() + ' there')"]
    assert "".join(CommandAnswerer(reads)("hello")) == "hello there\n"
    with pytest.raises(EdgespecError, match="ended with 3: 'no'"):
        CommandAnswerer(
            [sys.executable, "-c", "import sys; print('no', file=sys.stderr); exit(3)"]
        )("a")
    with pytest.raises(UsageError, match="cannot be run"):
        CommandAnswerer(["/no/such/program"])("a")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "there is nothing to audit"),
        (["--command", "a"], "1 commands are given; give two"),
        (["ftp://a"], "the URL is 'ftp://a'"),
        (["http://a", "--without", "[]"], "--without is '[]'"),
        (["--command", "'a", "--command", "b"], "No closing quotation"),
    ],
    ids=str,
)
def test_what_cannot_be_audited_is_one_line(arguments, reason):
    error = run("audit", *arguments, code=2).stderr
    assert reason in error
    assert len(error.strip().splitlines()) == 1


def test_a_server_that_is_not_there_is_one_line():
    error = run("audit", "http://127.0.0.1:9", code=1).stderr
    assert "http://127.0.0.1:9/v1/completions cannot be asked" in error


def test_edgespecs_own_server_is_exact(tool_pair, tmp_path):
    pytest.importorskip("starlette")
    from serving import Served

    prompts = tmp_path / "prompts.txt"
    prompts.write_text("once\nHello there\n3 + 4\n")
    with Served(tool_pair) as port:
        url = f"http://127.0.0.1:{port}"
        asked = ["audit", url, "--against", url, "--tokens", "16", "--prompts", prompts, "--chat"]
        whole = json.loads(run(*asked, "--json").stdout)
        assert [finding["check"] for finding in whole["findings"]] == [
            "repeat",
            "neighbours",
            "other",
        ]
        assert all(finding["differ"] == 0 for finding in whole["findings"])
        assert whole["left_out"] == {LENGTH: "a chat's answer is not gone on with"}
        table = run(*asked).stdout.splitlines()
        assert table[0].split() == ["check", "texts", "differ", "first", "at", "token"]
        assert table[1].split() == ["repeat", "3", "0", "-"]


def test_the_length_of_a_call_is_left_out_for_an_encoder_decoder(pair, tool_pair, tmp_path):
    """Its server says so itself; of another server the caller does."""
    pytest.importorskip("starlette")
    from serving import Served

    prompts = tmp_path / "prompts.txt"
    prompts.write_text("w5 w6\n")
    why = "to an encoder-decoder, a prompt with a piece of its answer is another prompt"

    def audited(served, *options):
        with Served(served) as port:
            asked = ["audit", f"http://127.0.0.1:{port}", "--prompts", prompts, "--tokens", "8"]
            return run(*asked, *options).stdout

    assert pair.manifest.target.is_encoder_decoder
    *table, why_not = audited(pair).splitlines()
    assert [line.split()[0] for line in table] == ["check", "repeat", "neighbours"]
    assert why_not == f"{LENGTH} is left out: {why}"
    told = json.loads(audited(tool_pair, "--json", "--encoder-decoder"))
    assert (told["findings"][-1]["check"], told["left_out"]) == ("neighbours", {LENGTH: why})
