"""The messages of a conversation, and how its next answer is generated."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, cast

from edgespec.artifact.chat_format import Message, system_messages, user_message
from edgespec.chat.chat_writer import ChatOptions
from edgespec.cli.parameters.model_defaults import generation_options

if TYPE_CHECKING:
    from edgespec.pair.generation import Stream
    from edgespec.pair.generation_options import GenerationOptions
    from edgespec.pair.pair import Pair
    from edgespec.pair.prompt import Prompt

__all__ = ["Conversation"]

SEED_BITS = 32


class Conversation:
    """The messages so far, and how the next answer is generated.

    The seed of an answer is that of the first, and 1 more for each answer before it and each that
    was made again. So what follows depends on what was said and on the settings alone, not on
    whether the conversation was closed and opened again in between.

    Args:
        pair: of a chat model.
        system: the system prompt; None for the chat format's own.
        given: options of the command, see `generation_options`. Without a seed it draws one.

    Raises:
        UsageError: the pair refuses the options or the system prompt.

    Attributes:
        messages: of the user and of the model, by turns.
        given: as above.
        made_again: how many answers were made again.
    """

    def __init__(self, pair: Pair, system: str | None, given: dict[str, object]) -> None:
        self.pair = pair
        self.system = system
        self.given = {**given, "seed": _seed(given.get("seed"))}
        self.messages: list[Message] = []
        self.made_again = 0
        self.check()

    def check(self) -> None:
        """Raises UsageError if no answer can be made with these settings."""
        self.ask("?")  # a stream computes nothing until it is read

    @property
    def options(self) -> GenerationOptions:
        """Of `Pair.stream`, for the next answer."""
        options = generation_options(self.pair.manifest, self.given)
        base = cast("int", self.given["seed"])
        options["seed"] = base + len(self.messages) // 2 + self.made_again
        return options

    def ask(self, text: str) -> Stream:
        """The answer to a message, to be read. `add` makes both part of the conversation."""
        return self.pair.stream(self._with(text), **self.options)

    def add(self, text: str, answer: str) -> None:
        """Adds a message and its answer."""
        self.messages += [user_message(text), {"role": "assistant", "content": answer}]

    def undo(self) -> str | None:
        """Takes the last message and its answer back, and returns the message; None if there is
        none."""
        if not self.messages:
            return None
        *self.messages, asked, _ = self.messages
        return str(asked["content"])

    def change(self, given: dict[str, object]) -> None:
        """Sets options of the command anew.

        Raises:
            UsageError: the pair refuses them; they are then as before.
        """
        before = self.given
        self.given = {**given, "seed": _seed(given.get("seed"))}
        try:
            self.check()
        except Exception:
            self.given = before
            raise

    def change_system(self, system: str | None) -> None:
        """Sets the system prompt. Raises UsageError if the pair refuses it; it is then as
        before."""
        before, self.system = self.system, system
        try:
            self.check()
        except Exception:
            self.system = before
            raise

    def prompt_text(self, text: str) -> str:
        """What the model reads before it answers a message."""
        kwargs = self.options.get("chat_template_kwargs") or {}
        write = self.pair.text_engine.encoder.chat
        return str(write(self._with(text), [], ChatOptions(kwargs)).text)

    def prompt(self) -> Prompt:
        """What the model has read and said so far, as token ids."""
        engine = self.pair.text_engine
        messages = [*system_messages(self.system), *self.messages]
        return engine.read.prompt(messages, self.options, engine.longest_prompt)

    def _with(self, text: str) -> list[Message]:
        return [*system_messages(self.system), *self.messages, user_message(text)]


def _seed(given: object) -> int:
    return given if isinstance(given, int) else secrets.randbits(SEED_BITS)
