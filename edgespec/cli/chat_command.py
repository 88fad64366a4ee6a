"""The command line of `edgespec chat`: a conversation, on a terminal or a message a line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from edgespec.artifact.chat_format import Message, system_messages, user_message
from edgespec.cli.cli_errors import one_line_errors
from edgespec.cli.options import (
    GENERATION,
    LOADING,
    PAIR,
    SHOWN,
    SYSTEM,
    Loading,
    check_shown,
    drafting,
)
from edgespec.cli.render import generation_json, show_stats, write_stream
from edgespec.errors import UsageError

if TYPE_CHECKING:
    from edgespec.pair.generation import Stream
    from edgespec.pair.pair import Pair

__all__ = ["chat"]

HELP = "Ctrl-C ends an answer, /clear forgets the conversation, Ctrl-D or /exit leaves"


class Conversation:
    """What was said so far.

    Args:
        options: of `Pair.stream`. A seed is the first answer's; each later one takes the next.

    Raises:
        UsageError: the options, or a system prompt, will not do.
    """

    def __init__(self, pair: Pair, system: str | None, options: dict[str, Any]) -> None:
        self._pair = pair
        self._opening = system_messages(system)
        self._options = options
        self.messages: list[Message] = []
        self.ask("?")  # a stream computes nothing until it is read

    def ask(self, text: str) -> Stream:
        """The answer that begins. It is part of the conversation once it is `kept`."""
        options = dict(self._options)
        if options["seed"] is not None:
            options["seed"] += len(self.messages) // 2
        return self._pair.stream([*self._opening, *self.messages, user_message(text)], **options)

    def keep(self, text: str, stream: Stream) -> None:
        """As far as it went, if it has begun."""
        if stream.result.token_ids:
            self.messages += [
                user_message(text),
                {"role": "assistant", "content": stream.result.text},
            ]


@click.command(short_help="Talk with a chat model.")
@PAIR
@SYSTEM
@GENERATION
@SHOWN
@LOADING
def chat(
    system: str | None,
    draft: str | None,
    no_draft: bool,
    show_draft: bool,
    stats: bool,
    as_json: bool,
    loading: Loading,
    **options: Any,
) -> None:
    """Talk with PAIR, if its target is a chat model. Each answer is exactly the target's own.

    On a terminal Ctrl-C ends an answer, /clear forgets the conversation and Ctrl-D leaves. Else
    each line of standard input is a message. Earlier turns stay in the cache.
    """

    def show(stream: Stream) -> None:
        if as_json:
            for _ in stream:
                pass
            click.echo(generation_json(stream.result))
            return
        write_stream(stream, show_draft)
        if stats:
            show_stats(stream.result)

    with one_line_errors():
        options["draft"] = drafting(draft, no_draft)
        check_shown(show_draft, as_json)
        if loading.manifest().chat is None:
            raise UsageError("this model has no chat format; take: edgespec generate")
        pair = loading.pair()
        conversation = Conversation(pair, system, options)
        ends = (sys.stdin, sys.stdout)
        if not as_json and all(end is not None and end.isatty() for end in ends):
            click.secho(f"{pair.manifest.target.source}: {HELP}", err=True, dim=True)
            _at_a_terminal(conversation, show)
            return
        for text in _lines():
            stream = conversation.ask(text)
            show(stream)
            conversation.keep(text, stream)


def _at_a_terminal(conversation: Conversation, show: Callable[[Stream], None]) -> None:
    """Goes on until it is left."""
    with suppress(ImportError):
        import readline  # noqa: F401  (lines can be edited and called back)
    while (text := _typed()) is not None:
        if text == "/clear":
            conversation.messages = []
            click.secho("forgotten", err=True, dim=True)
        elif text == "/help":
            click.secho(HELP, err=True, dim=True)
        elif text:
            _answer(conversation, text, show)


def _answer(conversation: Conversation, text: str, show: Callable[[Stream], None]) -> None:
    """A message that cannot be answered, or no longer, is a line and no end."""
    stream = None
    try:
        stream = conversation.ask(text)
        show(stream)
    except KeyboardInterrupt:
        click.echo()
    except UsageError as error:
        anew = ", or begin anew: /clear" if conversation.messages or stream else ""
        click.secho(f"edgespec: {error}{anew}", err=True, fg="red")
    if stream is not None:
        conversation.keep(text, stream)


def _typed() -> str | None:
    """A message; empty if there is none, None at the end."""
    try:
        text = input("\n> ").strip()
    except KeyboardInterrupt:
        click.echo()
        return ""
    except UnicodeDecodeError:
        click.secho("edgespec: the message is not UTF-8 text", err=True, fg="red")
        return ""
    except EOFError:
        click.echo()
        return None
    return None if text == "/exit" else text


def _lines() -> Iterator[str]:
    """The messages on standard input."""
    try:
        for line in sys.stdin or ():
            if line.strip():
                yield line.strip()
    except UnicodeDecodeError:
        raise UsageError("standard input is not UTF-8 text") from None
