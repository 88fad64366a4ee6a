"""The command line of `edgespec chat`: a conversation, on a terminal or a message a line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from edgespec.chat import Message, opening, said
from edgespec.cli_options import (
    GENERATION,
    JSON,
    LOADING,
    PAIR,
    SYSTEM,
    drafting,
)
from edgespec.errors import UsageError
from edgespec.one_line import one_line_errors
from edgespec.report import generation_json, show_stats, write_stream

if TYPE_CHECKING:
    from edgespec.generation import Stream
    from edgespec.pair import Pair

__all__ = ["chat"]

HELP = "Ctrl-C ends an answer, /clear forgets the conversation, Ctrl-D or /exit leaves"


class Conversation:
    """What was said so far.

    Args:
        options: of `Pair.stream`. A seed is the first answer's; each later one takes the next.
    """

    def __init__(self, pair: Pair, system: str | None, options: dict[str, Any]) -> None:
        self._pair = pair
        self._opening = opening(system)
        self._messages: list[Message] = []
        self._options = options

    def ask(self, text: str) -> Stream:
        """The answer that begins; it belongs to the conversation when `keep` is told so."""
        options = dict(self._options)
        if options["seed"] is not None:
            options["seed"] += len(self._messages) // 2
        return self._pair.stream([*self._opening, *self._messages, said(text)], **options)

    def keep(self, text: str, answer: str) -> None:
        self._messages += [said(text), {"role": "assistant", "content": answer}]

    def clear(self) -> None:
        self._messages = []


@click.command(short_help="Talk with a chat model.")
@PAIR
@SYSTEM
@GENERATION
@click.option("--show-draft", is_flag=True, help="Colour the tokens that the draft proposed.")
@click.option("--stats", is_flag=True, help="Show speed and acceptance of each answer.")
@JSON
@LOADING
def chat(
    system: str | None,
    draft: str | None,
    no_draft: bool,
    show_draft: bool,
    stats: bool,
    as_json: bool,
    opened: Callable[[bool], Pair],
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
        pair = opened(no_draft)
        if pair.manifest.chat is None:
            raise UsageError("this model has no chat format; take: edgespec generate")
        conversation = Conversation(pair, system, options)
        if sys.stdin.isatty():
            click.secho(f"{pair.manifest.target.source}: {HELP}", err=True, dim=True)
            _at_a_terminal(conversation, show)
        else:
            for text in _lines():
                stream = conversation.ask(text)
                show(stream)
                conversation.keep(text, stream.result.text)


def _at_a_terminal(conversation: Conversation, show: Callable[[Stream], None]) -> None:
    """What a user can mend, such as a conversation that has grown too long, does not end it."""
    with suppress(ImportError):
        import readline  # noqa: F401  (lines can be edited and called back)
    while (text := _typed()) is not None:
        if text in ("/clear", "/help"):
            if text == "/clear":
                conversation.clear()
            click.secho("forgotten" if text == "/clear" else HELP, err=True, dim=True)
        elif text:
            try:
                stream = conversation.ask(text)
                try:
                    show(stream)
                except KeyboardInterrupt:
                    click.echo()
                if stream.result.token_ids:
                    conversation.keep(text, stream.result.text)
            except UsageError as error:
                click.secho(f"edgespec: {error}, or /clear", err=True, fg="red")


def _typed() -> str | None:
    """A message; empty after Ctrl-C, None at the end."""
    try:
        text = input("\n> ").strip()
    except KeyboardInterrupt:
        click.echo()
        return ""
    except EOFError:
        click.echo()
        return None
    return None if text == "/exit" else text


def _lines() -> Iterator[str]:
    """The messages on standard input."""
    try:
        for line in sys.stdin:
            if line.strip():
                yield line.strip()
    except UnicodeDecodeError:
        raise UsageError("standard input is not UTF-8 text") from None
