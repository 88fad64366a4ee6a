"""A conversation as a prompt that leaves room for an answer, whatever its length."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, cast

from edgespec.artifact.chat_format import Message
from edgespec.chat.long_conversation import Policy, Summarize, kept_turns, turns_of
from edgespec.errors import UsageError, shortened
from edgespec.pair.prompt import Prompt, PromptInput

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["fitting"]

logger = logging.getLogger("edgespec")

ANSWER_SHARE, LONGEST_ANSWER = 4, 1024  # room for an answer: a quarter, at most so many tokens


class Encode(Protocol):
    """`PromptEncoder` with the options of a call."""

    def __call__(self, given: PromptInput, /, *, most: int | None) -> Prompt: ...


def fitting(
    given: PromptInput,
    encode: Encode,
    tokens_of: Callable[[str], Sequence[int]],
    most: int,
    policy: Policy,
) -> Prompt:
    """The token ids of a prompt; of messages, after the oldest were left out if that is needed.

    Args:
        tokens_of: those of a text alone.
        most: positions of the cache.
        policy: "drop", or what makes messages of those that are left out.

    Raises:
        UsageError: as of `PromptEncoder`: also where the newest turn alone is too long, or what
            the function returns is too long or no messages.
    """
    room = most - min(most // ANSWER_SHARE, LONGEST_ANSWER)
    messages = _messages(given)
    if messages is None:
        return encode(given, most=most)
    whole = encode(messages, most=None)
    if len(whole.tokens) <= room:
        return whole
    head, turns = turns_of(messages)
    last = encode([*head, *turns[-1]], most=most) if turns else whole
    costs = sum(len(tokens_of(_said(message))) for message in turns[-1]) if turns else 0
    first = kept_turns(turns, lambda text: len(tokens_of(text)), len(last.tokens) - costs, room)
    while True:
        dropped = [message for turn in turns[:first] for message in turn]
        stand = _stand_in(policy, dropped) if callable(policy) and dropped else []
        kept = [message for turn in turns[first:] for message in turn]
        found = encode([*head, *stand, *kept], most=None)
        if len(found.tokens) <= room or first >= len(turns) - 1:
            break
        first += 1
    if stand and len(found.tokens) > most:
        raise UsageError(
            f"the prompt has {len(found.tokens)} tokens with what when_full's function made of "
            f"{len(dropped)} messages, and the cache holds {most}; return less"
        )
    logger.info(
        "the oldest %d of %d messages are left out: there were %d tokens, and the cache holds %d, "
        "of which %d are left to the answer",
        len(dropped),
        len(messages),
        len(whole.tokens),
        most,
        most - room,
    )
    return replace(found, dropped=len(dropped))


def _messages(given: PromptInput) -> list[Message] | None:
    """The messages of a prompt; None of another one."""
    if isinstance(given, (str, bytes, Prompt, Mapping)) or not isinstance(given, Iterable):
        return None
    parts = list(given)
    if not parts or not all(isinstance(part, Mapping) for part in parts):
        return None
    return cast("list[Message]", parts)


def _stand_in(summarize: Summarize, dropped: Sequence[Message]) -> list[Message]:
    """The messages that a caller's function makes of others, which it may change."""
    made = summarize(list(dropped))
    if isinstance(made, (str, bytes, Mapping)) or not isinstance(made, Iterable):
        raise UsageError(
            f"when_full's function returned {shortened(made)}; return a list of messages, which "
            "may be empty"
        )
    return list(made)


def _said(message: Message) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else ""
