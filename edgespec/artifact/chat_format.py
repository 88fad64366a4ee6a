"""A model's chat format: the texts around messages, so that a device needs no template language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from edgespec.artifact.typed_json import ADDED_LATER
from edgespec.errors import UsageError

__all__ = ["ChatFormat", "Message", "check_text", "system_messages", "user_message"]

Message = Mapping[str, str]  # {"role": one of ROLES, "content": text}
ROLES = ("system", "user", "assistant")


def user_message(text: str) -> Message:
    """A user's message."""
    return {"role": "user", "content": text}


def system_messages(system: str | None) -> list[Message]:
    """What a conversation begins with: a system prompt, if there is one."""
    return [] if system is None else [{"role": "system", "content": system}]


@dataclass(frozen=True)
class ChatFormat:
    """What a chat template writes between the messages of a conversation.

    Attributes:
        before: in front of the first user message, where no system prompt is given.
        after: between a user's message and the answer to be generated.
        before_answer: between a user's message and an earlier answer; None if only one message is
            known to fit the template.
        between: between an answer and the user's next message; None likewise.
        system, after_system: around a system prompt, instead of `before`; None if the template
            takes none, or puts it where it cannot be told apart.
        trims: roles whose messages lose the white space around them.
        hides: earlier answers are shown from behind the last of this text on: where a model's
            thinking ends. Empty if they are shown whole.
        hides_newlines: those that follow it are hidden, too.
    """

    before: str
    after: str
    before_answer: str | None = field(default=None, metadata=ADDED_LATER)
    between: str | None = field(default=None, metadata=ADDED_LATER)
    system: str | None = field(default=None, metadata=ADDED_LATER)
    after_system: str | None = field(default=None, metadata=ADDED_LATER)
    trims: tuple[str, ...] = field(default=(), metadata=ADDED_LATER)
    hides: str = field(default="", metadata=ADDED_LATER)
    hides_newlines: bool = field(default=False, metadata=ADDED_LATER)

    def text(self, messages: Sequence[Message]) -> tuple[str, list[range]]:
        """What the model reads in front of its next answer, and where its earlier answers are.

        Args:
            messages: perhaps a system prompt, then user and assistant in turns; a user's is last.

        Returns:
            The text, special tokens and all: a tokenizer must not add its own. The places of the
            answers are in characters, with what the template puts in front of an earlier answer
            and leaves to the model for one to be generated (a space).

        Raises:
            UsageError: other roles or another order, or more than the format is known for.
        """
        turns = self._turns(messages)
        text = self.before
        if messages[0]["role"] == "system":
            if self.system is None or self.after_system is None:
                raise UsageError(
                    "this model's chat format takes no system prompt (or the pair was exported "
                    "before edgespec knew it); say it in the first message, or export again"
                )
            text = self.system + self._shown(messages[0]) + self.after_system
        answers = []
        for question, answer in turns[:-1]:
            text += self._shown(question)
            begins = len(text) + self._left_to_model()
            text += (self.before_answer or "") + self._shown(answer)
            answers.append(range(begins, len(text)))
            text += self.between or ""
        return text + self._shown(turns[-1][0]) + self.after, answers

    def _left_to_model(self) -> int:
        """Where in `before_answer` begins what is generated."""
        before = self.before_answer or ""
        return len(self.after) if before.startswith(self.after) else len(before)

    def _turns(self, messages: Sequence[Message]) -> list[Sequence[Message]]:
        """Each user message with its answer; the last one without."""
        roles = [_role(message, place) for place, message in enumerate(messages, start=1)]
        begins = 1 if roles[:1] == ["system"] else 0
        turns, wanted = messages[begins:], ("user", "assistant")
        wrong = [r for place, r in enumerate(roles[begins:]) if r != wanted[place % 2]]
        if wrong or len(turns) % 2 == 0:
            first = ", ".join(roles[:6]) + (", …" if len(roles) > 6 else "")
            raise UsageError(
                f"the messages' roles are {first or 'none'}; give perhaps a system message, then "
                "user and assistant in turns, and a user's last"
            )
        if len(turns) > 1 and (self.between is None or self.before_answer is None):
            raise UsageError(
                "this model's chat format is known for one message only (or the pair was exported "
                "before edgespec knew more); give one, or export again"
            )
        return [turns[place : place + 2] for place in range(0, len(turns), 2)]

    def _shown(self, message: Message) -> str:
        role, text = message["role"], message["content"]
        if role == "assistant" and self.hides and self.hides in text:
            text = text.rpartition(self.hides)[2]
            text = text.lstrip("\n") if self.hides_newlines else text
        return text.strip() if role in self.trims else text


def check_text(text: str, what: str) -> None:
    """Raises UsageError if it is empty or no Unicode: a command line may hold any bytes."""
    if not text:
        raise UsageError(f"{what} is empty; give some text")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            f"{what} is not Unicode text at character {error.start}; give it as UTF-8"
        ) from None


def _role(message: Message, place: int) -> str:
    fields: Mapping[str, object] = message if isinstance(message, Mapping) else {}
    role, text = fields.get("role"), fields.get("content")
    if (
        not (isinstance(role, str) and isinstance(text, str))
        or role not in ROLES
        or fields.keys() != {"role", "content"}
    ):
        raise UsageError(
            f"message {place} is {message!r:.80}; give a role ({', '.join(ROLES)}) and a content "
            "that is text, and nothing else"
        )
    if text or role == "user":  # others may say nothing
        check_text(text, f"message {place}")
    return role
