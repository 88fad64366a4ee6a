"""Claim: whatever the encoding of the console or the pipe, everything is printed and nothing lost;
text is read as UTF-8 wherever it comes from.
"""

from __future__ import annotations

import codecs
import io
import json
import os
import subprocess
import sys

import click
import pytest

from command import run
from depth import one_in
from edgespec.cli.console import console_text, set_up_console
from edgespec.cli.main import main
from edgespec.errors import UsageError

ENCODINGS = ["utf-8", "cp1252", "gbk", "latin-1", "ascii", "us-ascii", "utf-16", "cp437", "cp932"]
every_encoding = pytest.mark.parametrize("encoding", ENCODINGS)
TEXT = "é 😀 你好 γ"


class Console:
    """Streams of an encoding in place of this process's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
        self.encoding = encoding
        self.bytes = {name: io.BytesIO() for name in ("stdout", "stderr")}
        for name, buffer in self.bytes.items():
            monkeypatch.setattr(sys, name, io.TextIOWrapper(buffer, encoding, write_through=True))
        set_up_console()

    def printed(self, name: str = "stdout") -> str:
        """What its reader sees, who has the same encoding."""
        getattr(sys, name).flush()
        return self.bytes[name].getvalue().decode(self.encoding)


def restored(printed: str, encoding: str) -> str:
    """A text from what was printed of it: escapes stand for what the encoding lacks."""
    lacking = [c for c in TEXT if c.encode(encoding, "ignore") in (b"", codecs.BOM_UTF16)]
    for character in lacking:
        escape = character.encode("ascii", "backslashreplace").decode("ascii")
        printed = printed.replace(escape, character)
    return printed


@every_encoding
def test_a_model_s_text_can_be_restored_from_what_is_printed(encoding, monkeypatch):
    console = Console(monkeypatch, encoding)
    click.echo(console_text(TEXT))
    assert restored(console.printed(), console.encoding) == f"{TEXT}\n"


@every_encoding
def test_edgespec_s_own_symbols_are_spelled_where_they_lack(encoding, monkeypatch):
    console = Console(monkeypatch, encoding)
    click.echo("γ 2.1× → α", err=True)
    assert console.printed("stderr") in {
        "γ 2.1× → α\n",  # utf-8, utf-16, gbk, cp932
        "gamma 2.1× -> alpha\n",  # latin-1, cp1252
        "gamma 2.1x -> alpha\n",  # ascii
        "gamma 2.1x -> α\n",  # cp437
    }


@every_encoding
def test_half_a_surrogate_pair_as_of_a_file_s_name_is_printed(encoding, monkeypatch):
    console = Console(monkeypatch, encoding)
    click.echo("caf\udce9.jsonl")
    assert console.printed() == "caf\\udce9.jsonl\n"


@pytest.mark.parametrize("command", sorted(main.commands))
def test_the_help_of_every_command_is_printed_in_ascii(command, monkeypatch):
    console = Console(monkeypatch, "ascii")
    with pytest.raises(SystemExit, match="0"):
        main([command, "--help"], prog_name="edgespec")
    assert f"Usage: edgespec {command}" in console.printed()


@pytest.fixture(scope="module")
def grammar(tmp_path_factory):
    """A Lark grammar of one text, which every model writes."""
    path = tmp_path_factory.mktemp("lark") / "x.lark"
    path.write_text(f'start: "{TEXT}"\n', encoding="utf-8")
    return path


@one_in(2, turn=1)
@pytest.mark.parametrize("encoding", ["cp1252", "gbk", "ascii", "utf-16"])
def test_generate_prints_a_text_that_the_console_lacks(encoding, tiny_folder, grammar):
    arguments = ["generate", tiny_folder, "-", "--lark", grammar, "-n", "40", "--stats"]
    done = subprocess.run(
        [sys.executable, "-m", "edgespec", *map(str, arguments)],
        input=("\ufeff" + "你好\r\n").encode(),
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": encoding},
    )
    assert done.returncode == 0, done.stderr
    assert restored(done.stdout.decode(encoding), encoding).split() == TEXT.split()
    assert "40 tokens" in done.stderr.decode(encoding) or "tokens in" in done.stderr.decode(
        encoding
    )


def test_json_is_ascii(tiny_folder, chat_folder, grammar):
    lines = run("generate", tiny_folder, "x", "--json", "--lark", grammar, "-n", "40").stdout
    lines += run("chat", chat_folder, "--json", "-n", "3", input="你好\n").stdout
    lines += run("inspect", tiny_folder, "--json").stdout
    assert lines.isascii()
    assert json.loads(lines.splitlines()[0])["text"] == TEXT


# --- what is read ---------------------------------------------------------------------------------

SAME = {
    "UTF-8": "你好 é\u2028\x85\n",
    "a mark": "\ufeff你好 é\u2028\x85\n",
    "CR LF": "你好 é\u2028\x85\r\n",
    "no end": "你好 é\u2028\x85",
}


@one_in(2, turn=1)
@pytest.mark.parametrize("written", SAME.values(), ids=SAME)
def test_a_prompt_is_the_same_from_a_file_and_from_standard_input(written, chat_folder, tmp_path):
    file = tmp_path / "prompt.txt"
    file.write_bytes(written.encode())
    options = ("-n", "3", "--json", "--no-chat", "--greedy", "--threads", "1")
    argument = SAME["no end"]
    texts = [
        run("generate", chat_folder, *options, *source, input=given).stdout
        for source, given in (
            (["--file", file], None),
            (["-"], written.encode()),
            (["--file", "-"], written.encode()),
            ([argument], None),
        )
    ]
    read = [json.loads(text) for text in texts]
    assert {one["prompt_tokens"] for one in read} == {read[0]["prompt_tokens"]}
    assert {one["text"] for one in read} == {read[0]["text"]}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"one\ntwo \xe9\n", "line 2 has the byte 0xe9; convert it to UTF-8"),
        ("你好".encode("gbk"), "line 1 has the byte 0xc4"),
        (b"\xef\xbb\xbfone\r\n\xff", "line 2 has the byte 0xff"),
        ("one".encode("utf-16"), "it begins with the mark of UTF-16"),
        ("one".encode("utf-32"), "it begins with the mark of UTF-16"),
        (b"\xe4\xbd", "line 1 has the byte 0xe4"),
    ],
)
def test_what_is_not_utf_8_is_named_in_one_line(data, said, chat_folder, tmp_path):
    file = tmp_path / "prompt.txt"
    file.write_bytes(data)
    results = [
        run("generate", chat_folder, "--file", file, code=2),
        run("generate", chat_folder, "-", input=data, code=2),
        run("tune", chat_folder, "--text", file, code=2),
    ]
    if b"\n" not in data.rstrip(b"\n"):  # chat answers the lines before
        results.append(run("chat", chat_folder, input=data, code=2))
    for result in results:
        (line,) = result.stderr.splitlines()
        assert "is not UTF-8 text" in line
        assert said in line


def test_chat_reads_each_line_with_any_ends_and_names_the_one_that_cannot_be_read(chat_folder):
    data = b"\xef\xbb\xbfone\r\n\r\ntwo\xe2\x80\xa8half\nthr\xe9\n"
    options = ("-n", "2", "--json", "--threads", "1")
    result = run("chat", chat_folder, *options, input=data, code=2)
    assert len(result.stdout.splitlines()) == 2
    assert "line 4 has the byte 0xe9" in result.stderr
    alone = run("chat", chat_folder, *options, "--seed", "1", input=b"one\ntwo\xe2\x80\xa8half\n")
    again = run("chat", chat_folder, *options, "--seed", "1", input=data, code=2)
    texts = [
        [json.loads(line)["text"] for line in lines.splitlines()]
        for lines in (alone.stdout, again.stdout)
    ]
    assert texts[0] == texts[1]


def test_a_line_of_texts_ends_at_line_feeds_alone(tmp_path):
    from edgespec.artifact.text_file import read_lines

    file = tmp_path / "texts"
    file.write_bytes("\ufeffone\u2028still one\x0b\x85\r\n\r\ntwo".encode())
    assert read_lines(file) == ["one\u2028still one\x0b\x85", "two"]
    file.write_bytes(b"\xef\xbb\xbf \n")
    with pytest.raises(UsageError, match="has no text"):
        read_lines(file)
