"""Reads the next message at a terminal: with history, completion and several lines where
prompt_toolkit is installed, else with what the system's own input does."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import click

from edgespec.cli.progress_lines import say
from edgespec.device.home import kept_home
from edgespec.errors import in_checkout

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import Completer, Completion
    from prompt_toolkit.document import Document
    from prompt_toolkit.history import History
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

__all__ = ["BLOCK", "MessageInput", "PlainInput", "history_file", "input_of", "joined_blocks"]

BLOCK = '"""'  # begins and ends a message of several lines
PROMPT, MORE = "> ", "  "
PRIVATE = 0o600

# The completions of what was typed so far: each as (text to put there, characters that it replaces,
# what it is).
Complete = Callable[[str], Iterable[tuple[str, int, str]]]


class MessageInput(Protocol):
    """Where messages come from."""

    def read(self, begun: str) -> str:
        """The next message, which may have several lines.

        Args:
            begun: what it begins with, to be gone on with.

        Raises:
            EOFError: the user leaves.
            KeyboardInterrupt: the user begins anew.
        """
        ...


def history_file() -> Path:
    """Where messages are kept, to be recalled in later sessions."""
    return kept_home() / "chat_history"


def input_of(complete: Complete, keeps_history: bool) -> MessageInput:
    """The best that is installed. A terminal without cursor movement has the plain one."""
    if os.environ.get("TERM") in ("dumb", "unknown"):
        return PlainInput()
    try:
        import prompt_toolkit  # noqa: F401
    except ImportError:
        say(f"history, completion and Markdown: {in_checkout('.[terminal]')}")
        return PlainInput()
    return EditedInput(complete, keeps_history)


def joined_blocks(lines: Iterable[str]) -> Iterator[str]:
    """Messages of lines: each is one, or all from one that begins with three quotes to one that
    ends with them."""
    rest = iter(lines)
    for line in rest:
        message = line
        while _is_open(message) and (following := next(rest, None)) is not None:
            message += "\n" + following
        yield _without_marks(message)


def _is_open(text: str) -> bool:
    text = text.strip()
    return text.startswith(BLOCK) and (len(text) < 2 * len(BLOCK) or not text.endswith(BLOCK))


def _without_marks(text: str) -> str:
    stripped = text.strip()
    if not stripped.startswith(BLOCK):
        return text
    return stripped.removeprefix(BLOCK).removesuffix(BLOCK).strip("\n")


class PlainInput:
    """Python's own input: a line is a message, and a message in \"\"\" may have several."""

    def __init__(self) -> None:
        with suppress(ImportError):
            import readline  # noqa: F401  (lines can be edited and recalled)

    def read(self, begun: str) -> str:
        if begun:
            click.echo(f"\n{MORE}{begun}", nl=False)
        text = begun + input("" if begun else f"\n{PROMPT}")
        while _is_open(text):
            text += "\n" + input(MORE)
        return _without_marks(text)


class EditedInput:
    """A line editor: a pasted text is one message, Alt-Enter begins a line, and the arrow keys
    recall messages of this and of earlier sessions."""

    def __init__(self, complete: Complete, keeps_history: bool) -> None:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.filters import Condition
        from prompt_toolkit.history import InMemoryHistory

        def text() -> str:
            return self._session.default_buffer.text

        self._session: PromptSession[str] = PromptSession(
            history=_history() if keeps_history else InMemoryHistory(),
            completer=_completer(complete),
            complete_while_typing=Condition(lambda: text().startswith("/")),
            multiline=Condition(lambda: _is_open(text())),
            key_bindings=_keys(),
            prompt_continuation=MORE,
            enable_history_search=False,
        )

    def read(self, begun: str) -> str:
        from prompt_toolkit.formatted_text import FormattedText

        click.echo()
        placeholder = FormattedText([("fg:ansibrightblack", "message or /help")])
        return _without_marks(self._session.prompt(PROMPT, default=begun, placeholder=placeholder))


def _keys() -> KeyBindings:
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()

    @keys.add("escape", "enter")
    def begin_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return keys


def _completer(complete: Complete) -> Completer:
    from prompt_toolkit.completion import Completer, Completion

    class Commands(Completer):
        def get_completions(self, document: Document, event: object) -> Iterator[Completion]:
            for text, replaced, meaning in complete(document.text_before_cursor):
                yield Completion(text, -replaced, display_meta=meaning)

    return Commands()


def _history() -> History:
    """Of a file that only its owner can read. Where it cannot be written, messages are recalled in
    this session alone."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    class KeptHistory(FileHistory):
        def load_history_strings(self) -> Iterable[str]:
            with suppress(OSError):
                return list(super().load_history_strings())
            return []

        def store_string(self, string: str) -> None:
            with suppress(OSError):
                super().store_string(string)

    file = history_file()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(PRIVATE)
        if not file.is_file():
            raise FileExistsError
    except OSError:
        say(f"{file} cannot be written: messages are recalled in this session alone")
        return InMemoryHistory()
    return KeptHistory(str(file))
