"""What of a conversation is read when its cache cannot hold all of it.

Keys and values know their positions, so a turn that moves is computed again. Therefore much is left
out at once: until the next time everything that stays is where it was, and is found in the cache.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Literal, cast

from edgespec.artifact.chat_format import Message
from edgespec.errors import UsageError, shortened

__all__ = ["Policy", "Summarize", "checked_policy", "kept_turns", "turns_of"]

# Makes of the messages that are left out those that stand for them.
Summarize = Callable[[Sequence[Message]], Sequence[Message]]
Policy = Literal["stop", "drop"] | Summarize
POLICIES = ("stop", "drop")
INSTRUCTING = ("system", "developer")
AROUND = 12  # tokens that a chat format writes around a message, or more
ROUNDED = 64  # tokens, so that the same messages are left out again the next time
KEPT_SHARE = 0.5  # of the room, once something has to be left out


def checked_policy(policy: object) -> Policy:
    """Raises UsageError unless it is a policy."""
    if callable(policy) or (isinstance(policy, str) and policy in POLICIES):
        return cast(Policy, policy)
    raise UsageError(
        f"when_full is {shortened(policy)}; give 'stop', 'drop' or a function that makes messages "
        "of those that are left out"
    )


def turns_of(messages: Sequence[Message]) -> tuple[Sequence[Message], list[Sequence[Message]]]:
    """The instructions that a conversation begins with, and its turns: each a user's messages and
    all that follow them, calls and results of tools, too."""
    roles = [message.get("role") if isinstance(message, dict) else None for message in messages]
    first = next((i for i, role in enumerate(roles) if role not in INSTRUCTING), len(roles))
    starts = [
        i
        for i in range(first, len(roles))
        if i == first or (roles[i] == "user" and roles[i - 1] != "user")
    ]
    ends = [*starts[1:], len(roles)]
    turns = [messages[start:end] for start, end in zip(starts, ends, strict=True)]
    return messages[:first], turns


def kept_turns(
    turns: Sequence[Sequence[Message]], count: Callable[[str], int], instructions: int, room: int
) -> int:
    """The first turn that is read; the last one always is.

    It depends on the messages alone, and moves seldom as a conversation grows.

    Args:
        count: the tokens of a text.
        instructions: tokens of what every prompt has.
        room: tokens that a prompt may have.
    """
    before = -(-instructions // ROUNDED) * ROUNDED
    costs = [sum(count(_text(message)) + AROUND for message in turn) for turn in turns]
    first = 0
    for last in range(len(turns)):
        if before + sum(costs[first : last + 1]) <= room:
            continue
        while first < last and before + sum(costs[first : last + 1]) > KEPT_SHARE * room:
            first += 1
    return first


def _text(message: Message) -> str:
    """All that a message says."""
    content = message.get("content")
    whole = isinstance(content, str) and message.keys() <= {"role", "content"}
    return str(content) if whole else json.dumps(message, default=str, ensure_ascii=False)
