"""`edgespec chat`: a conversation, on a terminal or one message a line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from edgespec.artifact.text_file import standard_input_lines
from edgespec.cli.options import GENERATION, PAIR, SHOWN, SYSTEM, TEMPLATE, check_shown, drafting
from edgespec.cli.parameters.loading_options import LOADING, WHEN_FULL, Loading
from edgespec.cli.parameters.model_defaults import check_greedy
from edgespec.cli.progress_lines import say, say_missing_kernels
from edgespec.errors import UsageError

if TYPE_CHECKING:
    from edgespec.cli.terminal.conversation import Conversation
    from edgespec.pair.pair import Pair

__all__ = ["chat"]

DRAFTS = frozenset({"draft", "gamma", "rule"})  # settings of drafting


@click.command(short_help="Talk with a chat model.")
@PAIR
@SYSTEM
@TEMPLATE
@click.option("--load", "saved", metavar="NAME", help="Go on with a chat that /save kept.")
@click.option(
    "--no-history", is_flag=True, help="Keep no messages for the arrow keys of later sessions."
)
@GENERATION
@SHOWN
@LOADING
@WHEN_FULL
@click.pass_context
def chat(
    context: click.Context,
    /,
    system: str | None,
    draft: str | None,
    no_draft: bool,
    show_draft: bool,
    stats: bool,
    as_json: bool,
    saved: str | None,
    no_history: bool,
    loading: Loading,
    **options: object,
) -> None:
    """Talk with PAIR, if its target is a chat model. Each answer is exactly the target's own.

    PAIR is an exported folder, or what `edgespec export` takes as TARGET: that is exported on first
    use. On a terminal a pasted text is one message, Ctrl-C ends an answer, /help lists the commands
    and Ctrl-D leaves. Otherwise each line of standard input is a message, and so is each text from
    a line that begins with \"\"\" to one that ends so. Earlier turns stay in the cache. A
    target that was never tested here is; Ctrl-C ends the test, and the chat has no draft.

    \b
    Examples:
      edgespec chat smollm2-135m --system "Answer in one sentence."
      edgespec chat build/smollm2 --load holiday
    """
    from edgespec.cli.terminal.answer_view import Shown
    from edgespec.cli.terminal.chat_session import ChatSession
    from edgespec.cli.terminal.chat_setting import ChatSettings
    from edgespec.cli.terminal.conversation import Conversation
    from edgespec.cli.terminal.message_input import joined_blocks
    from edgespec.cli.terminal.saved_chat import chat_file, reopen_chat

    options["draft"] = drafting(draft, no_draft)
    check_greedy(options)
    check_shown(show_draft, as_json)
    if not loading.manifest.chats:
        raise UsageError("this model has no chat format; take: edgespec generate")
    ends = (sys.stdin, sys.stdout)
    at_terminal = not as_json and all(end is not None and end.isatty() for end in ends)
    pair = _opened(loading, options, at_terminal)
    say_missing_kernels()
    conversation = Conversation(pair, system, options)
    if at_terminal:
        names = frozenset(options) - (DRAFTS if _is_untested(pair, options) else frozenset())
        shown = Shown(draft=show_draft, stats=stats)
        settings = ChatSettings.of_command(context.command, names, conversation, shown)
        session = ChatSession(conversation, settings, shown, keeps_history=not no_history)
        session.run(None if saved is None else chat_file(saved))
        return
    if saved is not None and (differs := reopen_chat(conversation, chat_file(saved))):
        say(differs)
    for message in joined_blocks(standard_input_lines() if sys.stdin is not None else ()):
        if text := message.strip():
            _answer(conversation, text, show_draft=show_draft, stats=stats, as_json=as_json)


def _answer(conversation: Conversation, text: str, **shown: bool) -> None:
    """Shows the answer to a message that came from a pipe; both become part of the conversation.

    Args:
        shown: see `show_generation`.
    """
    from edgespec.cli.render import show_generation

    stream = conversation.ask(text)
    with _naming_the_policy(conversation):
        show_generation(stream, **shown)
    if stream.result.finish_reason == "capacity":
        say(f"the cache is full, so this answer ends here{_way_out(conversation)}")
    if stream.result.token_ids:
        conversation.add(text, stream.result.text)


@contextmanager
def _naming_the_policy(conversation: Conversation) -> Iterator[None]:
    """Where a conversation has become too long, its last message is not what has to be shorter."""
    try:
        yield
    except UsageError as error:
        way_out = _way_out(conversation) if conversation.messages else ""
        raise UsageError(f"{error}{way_out}") from None


def _way_out(conversation: Conversation) -> str:
    """What lets a conversation outgrow its cache, if that was not asked for."""
    if conversation.pair.when_full != "stop":
        return ""
    return "; --when-full drop leaves out the oldest turns"


def _opened(loading: Loading, options: dict[str, object], at_terminal: bool) -> Pair:
    """The pair. A target that was never tested here is, unless nothing is drafted; at a terminal
    Ctrl-C ends that test, and then nothing is drafted."""
    from edgespec.pair.opening.invariance_cache import MeasuringEndedError

    try:
        return loading.pair(plainly=options["draft"] is False)
    except MeasuringEndedError:
        if not at_terminal:
            raise
    say("not tested: this chat does without a draft, which is exact; the next one tests again")
    options["draft"] = False
    return loading.pair(plainly=True)


def _is_untested(pair: Pair, options: dict[str, object]) -> bool:
    """Whether drafting would not be exact, or nobody knows, and the user did not ask for it."""
    return options["draft"] is False and not pair.text_engine.drafting.exact
