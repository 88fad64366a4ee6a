"""Writes a conversation as the text that a model is to continue."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise

from edgespec.artifact.chat_format import NEEDS_JINJA, ChatFormat, ChatText, Message, check_unicode
from edgespec.chat.chat_template import (
    ChatTemplate,
    TemplateFailedError,
    check_template_options,
    jinja_is_installed,
)
from edgespec.chat.messages import read_messages
from edgespec.chat.tracked_text import Part, parts_of, tracked
from edgespec.errors import UsageError, shortened

__all__ = ["ChatOptions", "ChatWriter"]

logger = logging.getLogger("edgespec")

END = "edgespecContinuesHere "  # after a message's text; the space says whether it is trimmed
Messages = Sequence[Mapping[str, object]]


@dataclass(frozen=True)
class ChatOptions:
    """How a conversation is written.

    Attributes:
        template_options: values of the model's chat template by name, such as
            {"enable_thinking": False}.
        continues: the model goes on with the last message, instead of answering it.
        begins_answer: the text ends with what begins an answer; None: unless it is continued.
    """

    template_options: Mapping[str, object] = field(default_factory=dict)
    continues: bool = False
    begins_answer: bool | None = None

    def __post_init__(self) -> None:
        check_template_options(self.template_options)
        if self.continues and self.begins_answer:
            raise UsageError(
                "continue_final_message goes on with the last message, and add_generation_prompt "
                "begins another one; give one of them"
            )

    @property
    def answers(self) -> bool:
        return not self.continues if self.begins_answer is None else self.begins_answer


class ChatWriter:
    """Writes conversations in a model's chat format.

    The model's template says what it is, wherever Jinja is installed; elsewhere the texts around
    messages that the export found in it, which refuse what they do not cover.

    Args:
        template: of the pair, if it has one.
        chat_format: likewise.
        special: names of the tokenizer's special tokens.
        normalize: what the tokenizer makes of a text before it looks for them.

    Attributes:
        template: what writes; None where the texts around messages do.
    """

    def __init__(
        self,
        template: ChatTemplate | None,
        chat_format: ChatFormat | None,
        special: Collection[str] = (),
        normalize: Callable[[str], str] = str,
    ) -> None:
        self.template = template if jinja_is_installed() else None
        self._source = template
        self._chat_format = chat_format
        self._special = [name for name in special if name]
        self._normalize = normalize
        if template is not None or chat_format is not None:
            how = "texts around messages" if self.template is None else "the template, by Jinja"
            logger.debug("chat format: %s", how)

    def __call__(
        self,
        messages: Sequence[Message],
        tools: Messages = (),
        options: ChatOptions | None = None,
    ) -> ChatText:
        """The text of a conversation.

        Args:
            tools: functions, as the template is shown them.

        Raises:
            UsageError: it is no conversation, the model does not chat, its template does not take
                the messages, or they spell out a special token where that cannot be prevented.
        """
        options = options or ChatOptions()
        if self._source is None and self._chat_format is None:
            raise UsageError(
                "this model has no chat format; give it a plain text (no --chat or --system; no "
                "chat=True, no messages)"
            )
        read = read_messages(messages, self.template)
        if not read:
            raise UsageError("there are no messages; give at least one")
        if options.continues and not isinstance(read[-1].get("content"), str | list):
            raise UsageError(
                f"the last message is {shortened(messages[-1])}, and has no text to continue; "
                "leave continue_final_message out"
            )
        if self.template is None:
            return self._by_pieces(read, tools, options)
        return self._by_template(self.template, read, tools, options)

    # --- texts around messages ---

    def _by_pieces(
        self, messages: list[dict[str, object]], tools: Messages, options: ChatOptions
    ) -> ChatText:
        if self._chat_format is None:
            raise UsageError(f"this model's chat format is not known without Jinja; {NEEDS_JINJA}")
        if tools or any("tool_calls" in m or m["role"] == "tool" for m in messages):
            raise UsageError(f"conversations with tools are written by Jinja; {NEEDS_JINJA}")
        if options.begins_answer is False and not options.continues:
            raise UsageError(f"add_generation_prompt=False is known with Jinja only; {NEEDS_JINJA}")
        form = self._chat_format.with_options(options.template_options)
        return form.text(messages, options.continues)

    # --- the template ---

    def _by_template(
        self,
        template: ChatTemplate,
        messages: list[dict[str, object]],
        tools: Messages,
        options: ChatOptions,
    ) -> ChatText:
        text = self._rendered(template, messages, tools, options)
        check_unicode(text, "the conversation")
        parts = parts_of(text)
        given = [messages, [*tools], dict(options.template_options)]
        if self._spells_special(given):
            shown, offered, values = (_mapped(value, self._neutral) for value in given)
            neutral = self._rendered(template, shown, offered, options, values)  # type: ignore[arg-type]
            if _outside(text, parts) != _outside(neutral, parts_of(neutral)):
                raise UsageError(
                    "a message, a tool or an option spells out a special token in a place where "
                    "this model's chat template would make it one; leave it out"
                )
        roles = [message["role"] for message in messages]
        return ChatText(str.__str__(text), _answers(text, parts, roles), _contents(parts))

    def _rendered(
        self,
        template: ChatTemplate,
        messages: list[dict[str, object]],
        tools: Messages,
        options: ChatOptions,
        values: Mapping[str, object] | None = None,
    ) -> str:
        """The template's text, with the places of the messages' texts in it."""
        marked = [_marked(message, index) for index, message in enumerate(messages)]
        if options.continues:
            marked[-1] = _ending(messages[-1], len(messages) - 1)

        def render() -> str | None:
            """None if it wrote a None where a message has no content."""
            text, wrote_none = template.rendering(
                marked,
                tools or None,
                answers=options.answers,
                options=options.template_options if values is None else values,
            )
            return None if wrote_none and without else text

        without = [index for index, message in enumerate(marked) if "content" not in message]
        text = self._first_that_works(render, marked, without)
        return _up_to_end(text, messages[-1]["content"]) if options.continues else text

    def _first_that_works(
        self,
        render: Callable[[], str | None],
        messages: list[dict[str, object]],
        without: Sequence[int],
    ) -> str:
        """Messages without content as the template knows them: without this field, with None where
        there are calls, or with an empty text."""
        if without:
            with suppress(TemplateFailedError):
                if (text := render()) is not None:
                    return text
            for index in without:
                called = "tool_calls" in messages[index]
                messages[index]["content"] = None if called else tracked("", index)
            with suppress(TemplateFailedError):
                if (text := render()) is not None:
                    return text
            for index in without:
                messages[index]["content"] = tracked("", index)
        text = render()
        assert text is not None or without
        return text or ""

    def _spells_special(self, given: object) -> bool:
        texts = "\0".join(_texts(given))
        normal = self._normalize(texts)
        return any(name in texts or name in normal for name in self._special)

    def _neutral(self, text: str) -> str:
        """A text with other characters for the names of special tokens."""
        for name in self._special:
            text = text.replace(name, "x" * len(name))
        normal = self._normalize(text)
        return "x" * len(text) if any(name in normal for name in self._special) else text


def _texts(value: object) -> list[str]:
    """All texts in a JSON value."""
    found: list[str] = []

    def collect(text: str) -> str:
        found.append(text)
        return text

    _mapped(value, collect)
    return found


def _mapped(value: object, change: Callable[[str], str]) -> object:
    """A JSON value with its texts changed; the keys of objects, too."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {change(str(key)): _mapped(part, change) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_mapped(part, change) for part in value]
    return value


def _marked(message: Mapping[str, object], index: int) -> dict[str, object]:
    """A message whose texts, but its role, say that they are its own."""
    return {
        name: value if name == "role" else _marked_value(value, index)
        for name, value in message.items()
    }


def _marked_value(value: object, index: int) -> object:
    if isinstance(value, str):
        return tracked(value, index)
    if isinstance(value, Mapping):
        return {
            name: part if name == "type" else _marked_value(part, index)
            for name, part in value.items()
        }
    if isinstance(value, list | tuple):
        return [_marked_value(part, index) for part in value]
    return value


def _ending(message: dict[str, object], index: int) -> dict[str, object]:
    """The message with a mark after its text; its other fields are not followed."""
    content = message["content"]
    if isinstance(content, str):
        return {**message, "content": tracked(content + END, index)}
    parts = [*content] if isinstance(content, list) else []
    texts = [_marked_value(part, index) for part in parts[:-1]]
    last = {**parts[-1], "text": tracked(parts[-1]["text"] + END, index)}
    return {**message, "content": [*texts, last]}


def _up_to_end(text: str, content: object) -> str:
    """A rendered conversation up to the mark in its last message, as transformers cuts it."""
    said = content if isinstance(content, str) else content[-1]["text"]  # type: ignore[index]
    mark = str.rfind(text, END.rstrip())
    if mark < 0 or said.strip() not in text:
        raise UsageError(
            "this model's chat template does not write the last message as it is, so it cannot be "
            "continued; leave continue_final_message out"
        )
    trims = not text.startswith(END, mark)
    return text[:mark].rstrip() if trims else text[:mark]


def _outside(text: str, parts: Sequence[Part]) -> list[str]:
    """What a text has before, between and after its parts."""
    ends = [0, *(part.end for part in parts)]
    starts = [*(part.start for part in parts), len(text)]
    return [
        str.__getitem__(text, slice(end, start))
        for end, start in zip(ends, starts, strict=True)
        if start > end
    ]


def _contents(parts: Sequence[Part]) -> list[range]:
    return [range(part.start, part.end) for part in parts]


def _answers(text: str, parts: Sequence[Part], roles: Sequence[object]) -> list[range]:
    """Earlier answers: each from its first part, or from the end of what begins an answer, to its
    last part."""
    if not parts:
        return []
    after = str.__getitem__(text, slice(parts[-1].end, None))
    answers: list[range] = []
    begins = 0
    for index, (part, following) in enumerate(pairwise([*parts, Part(0, 0, -1)])):
        is_first = index == 0 or parts[index - 1].source != part.source
        if is_first:
            ended = parts[index - 1].end if index else 0
            before = str.__getitem__(text, slice(ended, part.start))
            left = bool(after) and index > 0 and before.startswith(after)
            begins = ended + len(after) if left else part.start
        if following.source != part.source and roles[part.source] == "assistant":
            answers.append(range(begins, part.end))
    return answers
