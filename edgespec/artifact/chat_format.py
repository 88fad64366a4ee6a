"""A model's chat format as texts around messages: a device needs no template language."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from edgespec.errors import UsageError, in_checkout, shortened

__all__ = [
    "FIELDS",
    "NEEDS_JINJA",
    "ChatFormat",
    "ChatText",
    "Message",
    "TemplateOption",
    "check_text",
    "check_unicode",
    "dated",
    "kinds_of_text",
    "system_messages",
    "user_message",
]

Message = Mapping[str, object]  # {"role": "user", "content": "…"} and fields that templates read
# Fields of messages besides role and content that chat templates of models read.
FIELDS = ("name", "reasoning_content", "reasoning", "thinking", "tool_calls", "tool_call_id")
NEEDS_JINJA = f"install Jinja for the model's own chat template: {in_checkout('.[chat]')}"
# In a text of the format: the date of the request, with strftime's pattern between the marks.
DATE = re.compile("\ue000(.*?)\ue001")


def user_message(text: str) -> Message:
    """A user's message."""
    return {"role": "user", "content": text}


def system_messages(system: str | None) -> list[Message]:
    """The first messages of a conversation: its system prompt, if there is one."""
    return [] if system is None else [{"role": "system", "content": system}]


def kinds_of_text(text: str) -> Iterator[str]:
    """What is unusual in a message's text, so that a template may treat it in its own way: "empty",
    "spaces" around it, "thinking"."""
    if not text.strip():
        yield "empty"
    if text != text.strip():
        yield "spaces"
    if "<think>" in text or "</think>" in text:
        yield "thinking"


class ChatText(NamedTuple):
    """What a model reads before its next answer, with ranges of characters in it.

    Attributes:
        text: with the chat format's special tokens; a tokenizer must not add its own.
        assistant_spans: the earlier answers, each with what the template writes before an earlier
            answer and leaves to the model for one to be generated (a space).
        contents: the texts of all messages, in order; everything else is the chat format's.
    """

    text: str
    assistant_spans: list[range]
    contents: list[range]


@dataclass(frozen=True)
class ChatFormat:
    """What a chat template writes between the messages of a conversation.

    A text may have dates: "\\ue000%d %B %Y\\ue001" stands for the date of the request.

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
        odd: roles and kinds of texts ("system:empty") that the template does not write as this
            format would, see `kinds_of_text`; "system+user:spaces" after a system prompt only.
        continues: an answer that is last, and is continued, is written as an earlier one.
        reads: fields of messages, among `FIELDS`, that the template reads.
        options: values that the template reads by name, besides messages and tools.
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
    odd: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    continues: bool = False
    options: tuple[TemplateOption, ...] = ()

    def with_options(self, values: Mapping[str, object]) -> ChatFormat:
        """The format with values of the template's options; names that it does not read are passed
        over.

        Raises:
            UsageError: what the template makes of a value is not known.
        """
        plain = replace(self, options=())
        changed = [form for form in self._forms(values) if form != plain]
        if len(changed) > 1:
            raise UsageError(
                f"the template options {', '.join(values)} are known one by one without Jinja; "
                f"give one of them, or {NEEDS_JINJA}"
            )
        return changed[0] if changed else plain

    def _forms(self, values: Mapping[str, object]) -> Iterator[ChatFormat]:
        for option in self.options:
            if option.name in values:
                value = values[option.name]
                form = option.formats.get(json.dumps(value))
                if form is None:
                    raise UsageError(
                        f"the template option {option.name} is {shortened(value)}, which is known "
                        f"with Jinja only; leave it out, or {NEEDS_JINJA}"
                    )
                yield form

    def text(
        self,
        messages: Sequence[Message],
        continues: bool = False,
        date: Callable[[str], str] | None = None,
    ) -> ChatText:
        """The text of a conversation that a model is to continue.

        Args:
            messages: perhaps a system prompt, then user and assistant in turns; a user's is last.
            continues: an assistant's is last, and is continued.
            date: of the request, in a pattern of strftime; default: now.

        Raises:
            UsageError: a conversation that the format does not cover.
        """
        turns = self._turns(messages, continues)
        parts = _Parts(date or datetime.now().strftime)
        if messages[0]["role"] == "system":
            if self.system is None or self.after_system is None:
                raise UsageError(
                    "this model's chat format takes no system prompt without Jinja; "
                    f"say it in the first message, or {NEEDS_JINJA}"
                )
            parts.add(self.system)
            parts.add_message(self._shown(messages[0]))
            parts.add(self.after_system)
        else:
            parts.add(self.before)
        for turn in turns:
            parts.add_message(self._shown(turn[0]))
            if len(turn) == 1:
                parts.add(self.after)
                continue
            begins = parts.length + self._left_to_model()
            parts.add(self.before_answer or "")
            parts.add_message(self._shown(turn[1]))
            parts.assistant_spans.append(range(begins, parts.length))
            if turn is not turns[-1] or not continues:
                parts.add(self.between or "")
        return ChatText("".join(parts.texts), parts.assistant_spans, parts.contents)

    def _left_to_model(self) -> int:
        """Index in `before_answer` where the model's own text begins."""
        before = self.before_answer or ""
        return len(self.after) if before.startswith(self.after) else len(before)

    def _turns(self, messages: Sequence[Message], continues: bool) -> list[Sequence[Message]]:
        """Each user message with its answer; the last one without, unless that is continued."""
        after = "system+" if messages[0]["role"] == "system" else ""
        for number, message in enumerate(messages, start=1):
            self._check(message, number, after if number > 1 else "")
        if continues and not self.continues:
            raise UsageError(
                "how this model's chat template writes a last answer is not known without Jinja; "
                f"leave continue_final_message out, or {NEEDS_JINJA}"
            )
        roles = [message["role"] for message in messages]
        begins = 1 if roles[:1] == ["system"] else 0
        turns, wanted = messages[begins:], ("user", "assistant")
        wrong = [r for index, r in enumerate(roles[begins:]) if r != wanted[index % 2]]
        if wrong or len(turns) % 2 == continues:
            first = ", ".join(map(str, roles[:6])) + (", …" if len(roles) > 6 else "")
            last = "an assistant's" if continues else "a user's"
            raise UsageError(
                f"the messages' roles are {first or 'none'}; without Jinja, give perhaps a system "
                f"message, then user and assistant in turns, and {last} last, or {NEEDS_JINJA}"
            )
        if len(turns) > 1 and (self.between is None or self.before_answer is None):
            raise UsageError(
                "this model's chat format is known for one message only without Jinja; give one, "
                f"or {NEEDS_JINJA}"
            )
        return [turns[index : index + 2] for index in range(0, len(turns), 2)]

    def _check(self, message: Message, number: int, after: str) -> None:
        """Raises UsageError where the template would write a message in its own way.

        Args:
            after: "system+" after a system prompt.
        """
        content = message.get("content")
        read = [field for field in message if field in self.reads]
        if read or not isinstance(content, str):
            field = read[0] if read else "content"
            raise UsageError(
                f"message {number} has a {field} that is not known without Jinja; leave it out, "
                f"or {NEEDS_JINJA}"
            )
        for kind in kinds_of_text(content):
            if f"{after}{message['role']}:{kind}" in self.odd:
                raise UsageError(
                    f"message {number} has a text ({kind}) that is not known without Jinja; "
                    f"change it, or {NEEDS_JINJA}"
                )

    def _shown(self, message: Message) -> str:
        role, text = message["role"], str(message["content"])
        if role == "assistant" and self.hides and self.hides in text:
            text = text.rpartition(self.hides)[2]
            text = text.lstrip("\n") if self.hides_newlines else text
        return text.strip() if role in self.trims else text


@dataclass(frozen=True)
class TemplateOption:
    """A value that a chat template reads by name, such as `enable_thinking`.

    Attributes:
        formats: by the JSON text of a value ("false"), the format with it, whose own `options` are
            empty. Other values are known with Jinja only.
    """

    name: str
    formats: dict[str, ChatFormat]


class _Parts:
    """A text that is put together from the format's texts and the messages'."""

    def __init__(self, date: Callable[[str], str]) -> None:
        self.texts: list[str] = []
        self.length = 0
        self.assistant_spans: list[range] = []
        self.contents: list[range] = []
        self._date = date

    def add(self, text: str) -> None:
        self._append(dated(text, self._date))

    def add_message(self, text: str) -> None:
        begins = self.length
        self._append(text)
        self.contents.append(range(begins, self.length))

    def _append(self, text: str) -> None:
        self.texts.append(text)
        self.length += len(text)


def dated(text: str, date: Callable[[str], str]) -> str:
    """A text of the format with its dates."""
    return DATE.sub(lambda mark: date(mark[1]), text)


def check_text(text: str, what: str) -> None:
    """Raises UsageError if a text is empty or no Unicode: a command line may hold any bytes."""
    if not text:
        raise UsageError(f"{what} is empty; give some text")
    check_unicode(text, what)


def check_unicode(text: str, what: str) -> None:
    """Raises UsageError if a text is no Unicode."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            f"{what} is not Unicode text at character {error.start}; give it as UTF-8"
        ) from None
