"""`edgespec chat`: a conversation, on a terminal or one message a line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import click

from edgespec.artifact.chat_format import Message, system_messages, user_message
from edgespec.artifact.text_file import standard_input_lines
from edgespec.cli.options import GENERATION, PAIR, SHOWN, SYSTEM, TEMPLATE, check_shown, drafting
from edgespec.cli.parameters.loading_options import LOADING, Loading
from edgespec.cli.parameters.model_defaults import check_greedy, generation_options
from edgespec.cli.progress_lines import say_missing_kernels
from edgespec.errors import UsageError

if TYPE_CHECKING:
    from edgespec.pair.generation import Stream
    from edgespec.pair.generation_options import GenerationOptions
    from edgespec.pair.pair import Pair

__all__ = ["chat"]

HELP = "Ctrl-C ends an answer, /clear forgets the conversation, Ctrl-D or /exit leaves"


class Conversation:
    """The messages so far, and how the next answer is generated.

    Args:
        options: of `Pair.stream`. The seed is that of the first answer; each later answer adds 1.

    Raises:
        UsageError: the pair refuses the options or the system prompt.
    """

    def __init__(self, pair: Pair, system: str | None, options: GenerationOptions) -> None:
        self._pair = pair
        self._system = system_messages(system)
        self._options = options
        self.messages: list[Message] = []
        self.ask("?")  # checks the options: a stream computes nothing until it is read

    def ask(self, text: str) -> Stream:
        """The answer to a message, to be read. `add` makes both part of the conversation."""
        options = self._options.copy()
        seed = options.get("seed")
        if seed is not None:
            options["seed"] = seed + len(self.messages) // 2
        return self._pair.stream([*self._system, *self.messages, user_message(text)], **options)

    def add(self, text: str, stream: Stream) -> None:
        """Adds a message and its answer, as far as the answer was read."""
        if stream.result.token_ids:
            self.messages += [
                user_message(text),
                {"role": "assistant", "content": stream.result.text},
            ]


@click.command(short_help="Talk with a chat model.")
@PAIR
@SYSTEM
@TEMPLATE
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
    **options: object,
) -> None:
    """Talk with PAIR, if its target is a chat model. Each answer is exactly the target's own.

    PAIR is an exported folder, or what `edgespec export` takes as TARGET: that is exported on first
    use. On a terminal Ctrl-C ends an answer, /clear forgets the conversation and Ctrl-D leaves.
    Otherwise each line of standard input is a message. Earlier turns stay in the cache.
    """
    from edgespec.cli.render import show_generation

    options["draft"] = drafting(draft, no_draft)
    check_greedy(options)
    check_shown(show_draft, as_json)
    if not loading.manifest.chats:
        raise UsageError("this model has no chat format; take: edgespec generate")
    pair = loading.pair()
    say_missing_kernels()
    conversation = Conversation(pair, system, generation_options(loading.manifest, options))
    show = partial(show_generation, show_draft=show_draft, stats=stats, as_json=as_json)
    ends = (sys.stdin, sys.stdout)
    if not as_json and all(end is not None and end.isatty() for end in ends):
        click.secho(f"{pair.manifest.target.source}: {HELP}", err=True, dim=True)
        _at_a_terminal(conversation, show)
        return
    for line in standard_input_lines() if sys.stdin is not None else ():
        if text := line.strip():
            stream = conversation.ask(text)
            show(stream)
            conversation.add(text, stream)


def _at_a_terminal(conversation: Conversation, show: Callable[[Stream], None]) -> None:
    """Asks for messages until the user leaves."""
    with suppress(ImportError):
        import readline  # noqa: F401  (lines can be edited and recalled)
    while (text := _typed()) is not None:
        if text == "/clear":
            conversation.messages = []
            click.secho("forgotten", err=True, dim=True)
        elif text == "/help":
            click.secho(HELP, err=True, dim=True)
        elif text:
            _answer(conversation, text, show)


def _answer(conversation: Conversation, text: str, show: Callable[[Stream], None]) -> None:
    """Shows an answer. Ctrl-C or an error ends the answer, not the conversation."""
    stream = None
    try:
        stream = conversation.ask(text)
        show(stream)
    except KeyboardInterrupt:
        click.echo()
    except UsageError as error:
        way_out = ", or start again: /clear" if conversation.messages or stream else ""
        click.secho(f"edgespec: {error}{way_out}", err=True, fg="red")
    if stream is not None:
        conversation.add(text, stream)


def _typed() -> str | None:
    """The next message: empty if nothing was typed, None at the end."""
    try:
        text = input("\n> ").strip()
    except KeyboardInterrupt:
        click.echo()
        return ""
    except UnicodeDecodeError:
        click.secho("edgespec: the message is not in the terminal's encoding", err=True, fg="red")
        return ""
    except EOFError:
        click.echo()
        return None
    return None if text == "/exit" else text
