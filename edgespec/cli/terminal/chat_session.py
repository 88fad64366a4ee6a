"""A conversation at a terminal, from its first message to its last."""

from __future__ import annotations

import shutil
import sys
import textwrap
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgespec.cli.render import stats_lines
from edgespec.cli.terminal.answer_view import Shown, view_of
from edgespec.cli.terminal.chat_command_line import completions, run_command
from edgespec.cli.terminal.chat_setting import ChatSettings
from edgespec.cli.terminal.conversation import Conversation
from edgespec.cli.terminal.message_input import input_of
from edgespec.cli.terminal.model_name import model_name
from edgespec.cli.terminal.quiet_terminal import Interruption, interruptible, typed_meanwhile
from edgespec.cli.terminal.saved_chat import open_chat, use_kept_cache
from edgespec.cli.terminal.thinking import BEGINS
from edgespec.errors import EdgespecError, UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from edgespec.pair.generation import Generation, Stream

__all__ = ["ChatSession"]


class ChatSession:
    """Reads messages and commands, and shows answers.

    Args:
        conversation: is asked.
        settings: what `/set` sets.
        shown: what is shown of answers.
        keeps_history: messages are kept for later sessions.

    Attributes:
        file: where the conversation was saved or opened, if it was.
    """

    def __init__(
        self,
        conversation: Conversation,
        settings: ChatSettings,
        shown: Shown,
        keeps_history: bool = True,
    ) -> None:
        self.conversation = conversation
        self.settings = settings
        self.file: Path | None = None
        self._shown = shown
        self._console = _console()
        self._input = input_of(lambda typed: completions(self, typed), keeps_history)
        self._last: Generation | None = None
        self._begun = ""

    def run(self, saved: Path | None = None) -> None:
        """Until the user leaves.

        Args:
            saved: a conversation to go on with. Raises EdgespecError if it cannot be opened.
        """
        if saved is not None:
            self.load(saved)
        self.say(f"{self._title()}: /help for commands, Ctrl-D or /bye leaves")
        while True:
            try:
                text = self._input.read(self._begun)
                self._begun = ""
                if text.startswith("/"):
                    run_command(self, text.rstrip())
                elif text.strip():
                    self._answer(text.strip())
            except KeyboardInterrupt:
                self._begun = ""
                click.echo()
            except EOFError:
                return
            except UnicodeDecodeError:
                self._complain("the message is not in the terminal's encoding")
            except EdgespecError as error:
                self._complain(str(error))
            except OSError as error:
                if error.filename is None:
                    raise  # of the terminal itself
                self._complain(f"{error.filename}: {error.strerror}")

    def say(self, line: str, indent: int = 0) -> None:
        """A line that is no part of an answer.

        Args:
            indent: columns before what is wrapped of it, where the terminal has twice as many.
        """
        click.secho(_wrapped(line, indent), err=True, dim=True)

    def load(self, file: Path) -> None:
        """Goes on with a saved conversation. Raises EdgespecError."""
        differs = open_chat(self.conversation, file)
        reads = use_kept_cache(self.conversation.pair, file)
        self.file = file
        turns = len(self.conversation.messages) // 2
        for message in self.conversation.messages[-2:]:
            mark = "> " if message["role"] == "user" else ""
            click.echo(f"{mark}{message['content']}")
        self.say(
            f"opened {file}: {turns} {'answer' if turns == 1 else 'answers'}; the next one "
            f"{reads}, and goes on exactly as if the chat had stayed open"
        )
        if differs:
            self.say(differs)

    def regenerate(self) -> None:
        """Makes the last answer again; it stays if no other comes."""
        conversation = self.conversation
        if not conversation.messages:
            raise UsageError("there is no answer yet")
        if not conversation.options.get("temperature"):
            raise UsageError(
                "the answer would be the same: the most probable token is always taken; first: "
                "/set temperature 0.7"
            )
        before = [*conversation.messages]
        asked = conversation.undo()
        conversation.made_again += 1
        try:
            self._answer(str(asked))
        finally:
            if len(conversation.messages) < len(before):
                conversation.messages = before
                conversation.made_again -= 1

    def show_stats(self) -> None:
        """Speed and acceptance of the last answer, and how full the cache is."""
        if self._last is None:
            raise UsageError("there is no answer yet")
        for line in stats_lines(self._last):
            self.say(line)
        read = self._last.prompt_tokens + len(self._last.token_ids)
        self.say(f"the chat has {read} of {self.conversation.pair.target.capacity} tokens")

    def _title(self) -> str:
        pair = self.conversation.pair
        manifest = pair.manifest
        draft = ""
        if manifest.draft and self.conversation.options.get("draft") is not False:
            draft = f", draft {model_name(manifest.draft.source)}"
        return f"{model_name(manifest.target.source)} ({pair.formats[0]}{draft})"

    def _answer(self, text: str) -> None:
        """Shows an answer. Ctrl-C or an error ends the answer, not the conversation."""
        stream = self.conversation.ask(text)
        try:
            with interruptible() as interruption, closing(stream):
                try:
                    self._show(text, stream, interruption)
                finally:
                    interruption.at_once = interruption.pressed = False
                    self._begun = typed_meanwhile()
        except UsageError as error:
            raise UsageError(f"{error}; /undo or /clear makes room") from None
        finally:
            if stream.result.token_ids:
                self.conversation.add(text, stream.result.text)
                self._last = stream.result
        self._say_end(stream.result)

    def _show(self, text: str, stream: Stream, interruption: Interruption) -> None:
        thinks = self.conversation.prompt_text(text).rstrip().endswith(BEGINS)
        view = view_of(self._console, self._shown, thinks)
        try:
            for chunk in stream:
                interruption.at_once = False
                view.add(chunk)
                if interruption.pressed:
                    break
        except KeyboardInterrupt:
            interruption.at_once = False
        view.end()

    def _say_end(self, result: Generation) -> None:
        if not result.finish_reason:
            self.say("(stopped)")
        elif result.finish_reason == "max_tokens":
            tokens = len(result.token_ids)
            self.say(f"(ended at {tokens} tokens; more: /set max_new_tokens {2 * tokens})")
        elif result.finish_reason == "capacity":
            self.say("(the cache is full: /clear begins a new chat)")
        if result.dropped_messages:
            self.say(
                f"(the oldest {result.dropped_messages} messages no longer fit the cache and were "
                "not read; /save keeps them)"
            )
        if self._shown.stats:
            self.show_stats()

    def _complain(self, line: str) -> None:
        click.secho(_wrapped(f"edgespec: {line}"), err=True, fg="red")


def _wrapped(line: str, indent: int = 0) -> str:
    """At words, for the terminal's width."""
    columns = shutil.get_terminal_size().columns
    return textwrap.fill(
        line,
        columns,
        subsequent_indent=" " * indent if columns >= 2 * indent else "",
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
    )


def _console() -> Console | None:
    """What draws on the terminal; None where rich is missing, or the terminal's cursor cannot be
    moved."""
    with suppress(ImportError):
        from rich.console import Console

        console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False)
        if console.is_terminal and not console.is_dumb_terminal and not console.legacy_windows:
            return console
    return None
