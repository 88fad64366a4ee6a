"""Claim: a chat at a terminal takes a pasted text as one message, recalls messages of earlier
sessions, knows its commands, echoes nothing while an answer runs, and loses nothing to Ctrl-C.

What answers look like is in test_answer_view.py, what is kept of them in test_saved_chats.py.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from depth import deep

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="there are no pseudo-terminals on Windows"
)
if sys.platform != "win32":
    from terminals import CTRL_C, CTRL_D, ENTER, TAB, UP, Terminal

# Every answer is as long as it may be.
OPTIONS = ("-n", 20, "--min-tokens", 20, "--threads", 1, "--greedy")
READY = "message or /help"
LONG = 900  # tokens, which take seconds


@pytest.fixture
def home(tmp_path) -> Path:
    return tmp_path / "home"


@contextmanager
def talk(folder: Path, home: Path, *options: object, **how: object) -> Iterator[Terminal]:
    arguments = ("chat", folder, *OPTIONS, *options)
    with Terminal(*arguments, EDGESPEC_HOME=str(home), **how) as terminal:
        ready(terminal)
        yield terminal


def ready(terminal: Terminal) -> None:
    """Waits until a message can be typed: before, the terminal itself would take the keys."""
    terminal.wait(lambda: terminal.text.rstrip().endswith(READY))


def enter(terminal: Terminal, line: str, arrives: str, times: int = 1) -> None:
    terminal.enter(line)
    terminal.wait(lambda: terminal.text.count(arrives) == times)
    ready(terminal)


def leave(terminal: Terminal, keys: str) -> None:
    terminal.type(keys)
    assert terminal.ended() == 0


def said(folder: Path) -> list[str]:
    messages = json.loads(folder.read_text(encoding="utf-8"))["messages"]
    return [message["content"] for message in messages if message["role"] == "user"]


ENDED = "(ended at 20 tokens"


def test_a_session_from_a_paste_to_a_saved_chat_and_the_next_one(chat_folder, home):
    with talk(chat_folder, home) as terminal:
        assert "target (fp32, draft draft): /help" in terminal.text
        terminal.paste("first line\nsecond line\nthird")
        enter(terminal, "", ENDED)
        terminal.enter('"""block')
        enter(terminal, 'its end"""', ENDED, 2)
        enter(terminal, "/bey", "no command '/bey'; did you mean /bye?")
        enter(terminal, "/undo", "taken back: 'block")
        terminal.type("/sav")
        terminal.wait("keep this chat in a file")
        terminal.type(TAB)
        terminal.wait("> /save")
        enter(terminal, " kept", "saved as")
        leave(terminal, "/bye" + ENTER)
    assert said(home / "chats/kept.json") == ["first line\nsecond line\nthird"]
    assert (home / "chat_history").stat().st_mode & 0o077 == 0

    with talk(chat_folder, home, "--load", "kept") as terminal:
        assert "opened" in terminal.text
        assert "> first line\nsecond line" in terminal.text
        # /bye, /save, /undo, /bey, the block's two lines and the paste
        enter(terminal, UP * 7, ENDED)
        enter(terminal, "/save", "saved as")
        leave(terminal, CTRL_D)
    assert said(home / "chats/kept.json") == ["first line\nsecond line\nthird"] * 2


def test_ctrl_c_ends_the_answer_alone_and_what_was_typed_meanwhile_is_the_next_message(
    chat_folder, home
):
    longer = ("-n", LONG, "--min-tokens", LONG)
    with talk(chat_folder, home, *longer, columns=32, NO_COLOR="1") as terminal:
        terminal.enter("go")
        terminal.wait(lambda: len(terminal.text.partition("> go\n")[2].strip()) > 40)
        before = terminal.output
        terminal.type("typed\nmeanwhile" + CTRL_C)
        terminal.wait("(stopped)")
        echoed = terminal.output.removeprefix(before).partition("(stopped)")[0]
        assert "typed" not in echoed
        terminal.wait("> typed\n  meanwhile")
        terminal.type(CTRL_C)  # begins anew
        ready(terminal)
        enter(terminal, "/save a", "saved as")
        leave(terminal, CTRL_D)
        assert max(map(len, terminal.lines)) <= 32
        colours = [code for code in range(31, 38) if f"\x1b[{code}m" in terminal.output]
        assert colours == []
    assert said(home / "chats/a.json") == ["go"]


@deep
def test_a_terminal_that_cannot_move_its_cursor_has_plain_lines(chat_folder, home):
    dumb = {"EDGESPEC_HOME": str(home), "TERM": "dumb"}
    with Terminal("chat", chat_folder, *OPTIONS, **dumb) as terminal:
        terminal.wait(lambda: terminal.text.rstrip().endswith("\n>"))
        terminal.enter('"""one')
        terminal.enter('two"""')
        terminal.wait(ENDED)
        for line, arrives in (("/nosuch", "no command '/nosuch'"), ("/save a", "saved as")):
            terminal.wait(lambda: terminal.text.rstrip().endswith("\n>"))
            terminal.enter(line)
            terminal.wait(arrives)
        terminal.wait(lambda: terminal.text.rstrip().endswith("\n>"))
        leave(terminal, CTRL_D)
        assert "\x1b[A" not in terminal.output
    assert said(home / "chats/a.json") == ["one\ntwo"]


@deep
def test_a_history_that_cannot_be_written_is_one_line_and_the_chat_goes_on(chat_folder, home):
    (home / "chat_history").mkdir(parents=True)
    with talk(chat_folder, home) as terminal:
        assert "cannot be written: messages are recalled in this session alone" in terminal.text
        enter(terminal, "one", ENDED)
        enter(terminal, UP, ENDED, 2)
        leave(terminal, "/exit" + ENTER)


@deep
@pytest.mark.parametrize("columns", [20, 60, 200])
def test_help_and_settings_fit_a_narrow_and_a_wide_terminal(chat_folder, home, columns):
    with talk(chat_folder, home, columns=columns, lines=100) as terminal:
        enter(terminal, "/help", "leaves", 2)
        enter(terminal, "/set", "temperature")
        enter(terminal, "/stats", "no answer")
        enter(terminal, "/ hi", "no command")
        assert "mean" not in terminal.text
        leave(terminal, "/quit" + ENTER)
        assert {"/regenerate", "temperature:", "markdown:"} <= set(terminal.text.split())
        system = terminal.lines[terminal.lines.index("> /help") + 2 :]
        wrapped = {20: "system", 60: f"{'':17}format's own", 200: "/set NAME"}[columns]
        assert any(line.startswith(wrapped) for line in system[:3])


@deep
def test_a_terminal_that_goes_away_ends_the_chat(chat_folder, home):
    with talk(chat_folder, home) as terminal:
        terminal.hang_up()
        assert terminal.ended() != 0
