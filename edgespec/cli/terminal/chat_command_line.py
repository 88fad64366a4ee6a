"""What begins with / at a terminal: commands of a conversation."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

from edgespec.cli.terminal.chat_setting import ChatSettings
from edgespec.cli.terminal.conversation import Conversation
from edgespec.cli.terminal.saved_chat import chat_file, chat_names, save_chat
from edgespec.errors import UsageError, shortened

__all__ = ["COMMANDS", "Commanded", "completions", "run_command"]

REPLACE = "--replace"
WITH_CACHE = "--cache"


class Commanded(Protocol):
    """What commands act on; see `ChatSession`."""

    conversation: Conversation
    settings: ChatSettings
    file: Path | None

    def say(self, line: str, indent: int = 0) -> None: ...
    def load(self, file: Path) -> None: ...
    def regenerate(self) -> None: ...
    def show_stats(self) -> None: ...


class ChatCommand(NamedTuple):
    """A command of a conversation.

    Attributes:
        takes: what follows its name, for people.
        help: what it does.
        run: is given what follows its name.
    """

    takes: str
    help: str
    run: Callable[[Commanded, str], None]


def run_command(session: Commanded, line: str) -> None:
    """Runs a line that begins with /.

    Raises:
        EOFError: the user leaves.
        EdgespecError, OSError: it cannot be done; the conversation is as before.
    """
    name, _, rest = line.partition(" ")
    command = COMMANDS.get(name.lower())
    if command is None:
        near = difflib.get_close_matches(name.lower(), COMMANDS, n=1) if name != "/" else []
        hint = f"did you mean {near[0]}?" if near else "/help lists them"
        raise UsageError(
            f"no command {shortened(name)}; {hint} (a message that begins with / needs a space "
            "before it)"
        )
    command.run(session, rest.strip())


def completions(session: Commanded, typed: str) -> Iterator[tuple[str, int, str]]:
    """The ways to go on with a line: each as (text, characters that it replaces, its meaning)."""
    if not typed.startswith("/") or "\n" in typed:
        return
    name, space, rest = typed.partition(" ")
    if not space:
        for known, command in COMMANDS.items():
            if known.startswith(name.lower()) and not _is_other_name(known):
                yield known, len(name), command.help
    elif name == "/set" and " " not in rest:
        for setting, meaning in session.settings.names.items():
            if setting.startswith(rest):
                yield setting, len(rest), meaning
    elif name in ("/load", "/save"):
        for chat in chat_names():
            if chat.startswith(rest):
                yield chat, len(rest), "a saved chat"


def _help(session: Commanded, rest: str) -> None:
    width = max(len(f"{name} {command.takes}") for name, command in COMMANDS.items())
    for name, command in COMMANDS.items():
        if not _is_other_name(name):
            session.say(f"{f'{name} {command.takes}':{width}}  {command.help}", width + 2)
    session.say('""" begins and ends a message of several lines, Alt-Enter begins a line in it')
    session.say("Ctrl-C ends an answer, Ctrl-D leaves")


def _system(session: Commanded, rest: str) -> None:
    if rest:
        session.conversation.change_system(None if rest == "default" else rest.strip('"'))
    system = session.conversation.system
    session.say("system: " + ("the chat format's own" if system is None else system))


def _set(session: Commanded, rest: str) -> None:
    name, _, value = rest.partition(" ")
    if not name:
        for line in session.settings.lines():
            session.say(line)
        return
    if not value.strip():
        known = session.settings.names.get(name.replace("-", "_").lower())
        raise UsageError(f"/set {name} needs a value" + (f": {known}" if known else ""))
    session.say(session.settings.set(name, value.strip()))


def _save(session: Commanded, rest: str) -> None:
    words = rest.split()
    asked = set()
    while words and words[-1] in (REPLACE, WITH_CACHE):
        asked.add(words.pop())
    name, replaces = " ".join(words), REPLACE in asked
    if not name and session.file is None:
        raise UsageError("give the chat a name: /save NAME")
    file = chat_file(name) if name else session.file
    assert file is not None
    if file.exists() and file != session.file and not replaces:
        raise UsageError(f"{file} is there already; to replace it: /save {name} {REPLACE}")
    save_chat(session.conversation, file, keeps_cache=WITH_CACHE in asked)
    session.file = file
    session.say(f"saved as {file}; to go on with it: /load {name or file}")


def _load(session: Commanded, rest: str) -> None:
    if not rest:
        names = chat_names()
        session.say(", ".join(names) if names else "no chat is saved yet: /save NAME")
        return
    session.load(chat_file(rest))


def _regenerate(session: Commanded, rest: str) -> None:
    session.regenerate()


def _undo(session: Commanded, rest: str) -> None:
    asked = session.conversation.undo()
    if asked is None:
        raise UsageError("there is nothing to take back")
    session.say(f"taken back: {shortened(asked)} and its answer")


def _clear(session: Commanded, rest: str) -> None:
    session.conversation.messages = []
    session.file = None
    session.say("forgotten")


def _stats(session: Commanded, rest: str) -> None:
    session.show_stats()


def _bye(session: Commanded, rest: str) -> None:
    raise EOFError


COMMANDS = {
    "/help": ChatCommand("", "these lines", _help),
    "/system": ChatCommand("TEXT", "the system prompt; default: the chat format's own", _system),
    "/set": ChatCommand("NAME VALUE", "a setting of the answers; alone: all of them", _set),
    "/save": ChatCommand("NAME", "keep this chat in a file; --cache: and what was read", _save),
    "/load": ChatCommand("NAME", "go on with a chat that was saved", _load),
    "/regenerate": ChatCommand("", "make the last answer again, with another seed", _regenerate),
    "/undo": ChatCommand("", "take the last message and its answer back", _undo),
    "/clear": ChatCommand("", "begin a new chat", _clear),
    "/stats": ChatCommand("", "speed and acceptance of the last answer", _stats),
    "/bye": ChatCommand("", "leave", _bye),
    "/exit": ChatCommand("", "leave", _bye),
    "/quit": ChatCommand("", "leave", _bye),
    "/?": ChatCommand("", "these lines", _help),
}


def _is_other_name(name: str) -> bool:
    return name in ("/exit", "/quit", "/?")
