"""A model's chat format as texts around messages: a device needs no template language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from edgespec.errors import UsageError, shortened

__all__ = ["ChatFormat", "ChatText", "Message", "check_text", "system_messages", "user_message"]

Message = Mapping[str, str]  # {"role": one of ROLES, "content": text}
ROLES = ("system", "user", "assistant")


def user_message(text: str) -> Message:
    """A user's message."""
    return {"role": "user", "content": text}


def system_messages(system: str | None) -> list[Message]:
    """The first messages of a conversation: its system prompt, if there is one."""
    return [] if system is None else [{"role": "system", "content": system}]


class ChatText(NamedTuple):
    """What a model reads before its next answer, with ranges of characters in it.

    Attributes:
        text: with the chat format's special tokens; a tokenizer must not add its own.
        answers: the earlier answers, each with what the template writes before an earlier answer
            and leaves to the model for one to be generated (a space).
        contents: the texts of all messages, in order; everything else is the chat format's.
    """

    text: str
    answers: list[range]
    contents: list[range]


@dataclass(frozen=True)
class ChatFormat:
    """What a chat template writes between the messages of a conversation.

    Attributes:
        before: before the first user message, where no system prompt is given.
        after: between a user's message and the answer to be generated.
        before_answer: between a user's message and an earlier answer; None if the template is
            known for one message only.
        between: between an answer and the user's next message; None likewise.
        system, after_system: around a system prompt, instead of `before`; None if the template
            takes none, or it is not known where it would be.
        trims: roles whose messages lose the white space around them.
        hides: of an earlier answer, the model reads only what follows the last occurrence of this
            text, which ends its thinking. Empty if it reads the whole answer.
        hides_newlines: the line ends after that text are hidden, too.
    """

    before: str
    after: str
    before_answer: str | None = None
    between: str | None = None
    system: str | None = None
    after_system: str | None = None
    trims: tuple[str, ...] = ()
    hides: str = ""
    hides_newlines: bool = False

    def text(self, messages: Sequence[Message]) -> ChatText:
        """The text of a conversation that a model is to continue.

        Args:
            messages: perhaps a system prompt, then user and assistant in turns; a user's is last.

        Raises:
            UsageError: other roles or another order, or a conversation that the format does not
                cover.
        """
        turns = self._turns(messages)
        text = self.before
        answers: list[range] = []
        contents: list[range] = []

        def add(message: Message) -> None:
            nonlocal text
            begins = len(text)
            text += self._shown(message)
            contents.append(range(begins, len(text)))

        if messages[0]["role"] == "system":
            if self.system is None or self.after_system is None:
                raise UsageError(
                    "this model's chat format takes no system prompt; say it in the first message"
                )
            text = self.system
            add(messages[0])
            text += self.after_system
        for question, answer in turns[:-1]:
            add(question)
            begins = len(text) + self._left_to_model()
            text += self.before_answer or ""
            add(answer)
            answers.append(range(begins, len(text)))
            text += self.between or ""
        add(turns[-1][0])
        return ChatText(text + self.after, answers, contents)

    def _left_to_model(self) -> int:
        """Index in `before_answer` where the model's own text begins."""
        before = self.before_answer or ""
        return len(self.after) if before.startswith(self.after) else len(before)

    def _turns(self, messages: Sequence[Message]) -> list[Sequence[Message]]:
        """Each user message with its answer; the last one without."""
        roles = [_role(message, number) for number, message in enumerate(messages, start=1)]
        begins = 1 if roles[:1] == ["system"] else 0
        turns, wanted = messages[begins:], ("user", "assistant")
        wrong = [r for index, r in enumerate(roles[begins:]) if r != wanted[index % 2]]
        if wrong or len(turns) % 2 == 0:
            first = ", ".join(roles[:6]) + (", …" if len(roles) > 6 else "")
            raise UsageError(
                f"the messages' roles are {first or 'none'}; give perhaps a system message, then "
                "user and assistant in turns, and a user's last"
            )
        if len(turns) > 1 and (self.between is None or self.before_answer is None):
            raise UsageError("this model's chat format is known for one message only; give one")
        return [turns[index : index + 2] for index in range(0, len(turns), 2)]

    def _shown(self, message: Message) -> str:
        role, text = message["role"], message["content"]
        if role == "assistant" and self.hides and self.hides in text:
            text = text.rpartition(self.hides)[2]
            text = text.lstrip("\n") if self.hides_newlines else text
        return text.strip() if role in self.trims else text


def check_text(text: str, what: str) -> None:
    """Raises UsageError if a text is empty or no Unicode: a command line may hold any bytes."""
    if not text:
        raise UsageError(f"{what} is empty; give some text")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            f"{what} is not Unicode text at character {error.start}; give it as UTF-8"
        ) from None


def _role(message: Message, number: int) -> str:
    """The role of a message; raises UsageError if it is no message."""
    fields: Mapping[str, object] = message if isinstance(message, Mapping) else {}
    role, text = fields.get("role"), fields.get("content")
    if (
        not (isinstance(role, str) and isinstance(text, str))
        or role not in ROLES
        or fields.keys() != {"role", "content"}
    ):
        raise UsageError(
            f"message {number} is {shortened(message)}; give a role ({', '.join(ROLES)}) "
            "and a content that is text, and nothing else"
        )
    if text or role == "user":  # other messages may be empty
        check_text(text, f"message {number}")
    return role
