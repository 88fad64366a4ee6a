"""A chat template as the texts around messages, so that a device does not need Jinja."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from edgespec.artifact.chat_format import FIELDS, ChatFormat, TemplateOption
from edgespec.chat.chat_template import ChatTemplate, TemplateStoppedError
from edgespec.errors import EdgespecError, UsageError
from edgespec_export.checkpoint.json_file import JsonObject, JsonValue, read_json_object

__all__ = ["chat_format", "folder_template", "special_tokens", "usable_template"]

logger = logging.getLogger("edgespec")


def _conversation(*texts: str) -> list[dict[str, str]]:
    """Messages of a user and an assistant in turn; the user begins."""
    roles = ("user", "assistant")
    return [{"role": roles[index % 2], "content": text} for index, text in enumerate(texts)]


def _after_system(text: str, *messages: dict[str, str]) -> list[dict[str, str]]:
    return [{"role": "system", "content": text}, *messages]


# Texts that no template contains, one for each message of a conversation, with what is escaped.
_SYSTEM, _FIRST, _ANSWER, _SECOND, _REPLY, _THIRD = (
    f"edgeSpec\u2063{name}\n\n \"<&'\\{{Text"
    for name in ("system", "1", "answer", "2", "reply", "3")
)
_THINKING_ENDS = "</think>"
_SPACED = _conversation(f" {_FIRST}\n")
_THOUGHT = _conversation(_FIRST, f"<think>\n{_REPLY}\n{_THINKING_ENDS}\n\n{_ANSWER}", _SECOND)
_ALL = _conversation(_FIRST, _ANSWER, _SECOND, _REPLY, _THIRD)
_A_DAY = datetime(2019, 3, 7, 21, 43, 5)

# Values of options that devices without Jinja may choose.
_VALUES: Mapping[str, tuple[object, ...]] = {
    "enable_thinking": (False, True),
    "thinking": (False, True),
    "reasoning_effort": ("none", "minimal", "low", "medium", "high"),
}

_Conversation = list[dict[str, str]]


class _Template:
    """A template's texts of test conversations; None where it refuses one.

    Args:
        options: values that the template is given by name.
    """

    def __init__(self, template: ChatTemplate, options: Mapping[str, object]) -> None:
        self.template = template
        self._options = options
        self._stopped = False

    def marked(self, messages: _Conversation) -> str | None:
        """With marks for dates (`ChatFormat`)."""
        return self._rendered(messages, lambda pattern: f"\ue000{pattern}\ue001")

    def dated(self, messages: _Conversation, answers: bool = True) -> str | None:
        """As of a certain day."""
        return self._rendered(messages, _A_DAY.strftime, answers)

    def _rendered(
        self, messages: _Conversation, date: Callable[[str], str], answers: bool = True
    ) -> str | None:
        if self._stopped:  # it would take as long again
            return None
        try:
            return self.template.render(messages, answers=answers, options=self._options, date=date)
        except UsageError as error:
            self._stopped = isinstance(error, TemplateStoppedError)
            return None


def chat_format(template: ChatTemplate) -> ChatFormat | None:
    """The texts that a template writes around messages, found by rendering it.

    Each optional part (system prompt, earlier turns, hidden thinking) is kept only if it renders
    test conversations of one to three questions as the template does. Kinds of texts that it does
    not render so (with white space around them, empty, with thinking) are noted in `odd`.

    Returns:
        None if the template cannot render one user message, or if its text does not contain the
        message exactly once, as it is or without the white space around it.
    """
    form = _format(_Template(template, {}))
    return None if form is None else replace(form, options=tuple(_options(template)))


def _options(template: ChatTemplate) -> Iterator[TemplateOption]:
    """What the template reads by name, with the formats of values that devices may choose."""
    for name in template.variables:
        formats: dict[str, ChatFormat] = {}
        for value in _VALUES.get(name, ()):
            form = _format(_Template(template, {name: value}))
            if form is not None:
                formats[json.dumps(value)] = form
        yield TemplateOption(name, formats)


def _format(texts: _Template) -> ChatFormat | None:
    single = _around(texts.marked(_conversation(_FIRST)), _FIRST)
    if single is None:
        return None
    before, after = single
    form = ChatFormat(before, after, reads=_reads(texts))
    if not _renders(form, [_conversation(_FIRST)], texts):
        return None
    form = _trimming(form, "user", texts)
    form = _with_system(_with_turns(form, texts), texts)
    return replace(form, odd=tuple(_odd(form, texts)), continues=_continues(form, texts))


def _reads(texts: _Template) -> tuple[str, ...]:
    """The fields of messages that the template reads, besides role and content."""

    def changes(field: str) -> bool:
        if field.startswith("tool_"):  # values of other kinds
            return texts.template.names(field)
        with_field = ([{**message, field: _REPLY} for message in each] for each in probes)
        return any(
            texts.dated(each) != texts.dated(plain)
            for each, plain in zip(with_field, probes, strict=True)
        )

    probes = [_conversation(_FIRST), _ALL, _after_system(_SYSTEM, *_ALL)]
    return tuple(field for field in FIELDS if changes(field))


def _with_turns(form: ChatFormat, texts: _Template) -> ChatFormat:
    """The format with the texts around earlier answers, if they render all probes correctly."""
    text = texts.marked(_conversation(_FIRST, _ANSWER, _SECOND))
    parts = _around(text, form.before + _FIRST, _ANSWER, _SECOND + form.after)
    if parts is None or parts[0] or parts[3]:
        return form
    turns = replace(form, before_answer=parts[1], between=parts[2])
    turns = _hiding(_trimming(turns, "assistant", texts), texts)
    return turns if _renders(turns, [_ALL], texts) else form


def _hiding(form: ChatFormat, texts: _Template) -> ChatFormat:
    """The format that removes the thinking from earlier answers, if the template does."""
    hides = replace(form, hides=_THINKING_ENDS)
    for hiding in (hides, replace(hides, hides_newlines=True)):
        if _renders(hiding, [_THOUGHT], texts):
            return hiding
    return form


def _with_system(form: ChatFormat, texts: _Template) -> ChatFormat:
    """The format with the texts around a system prompt, if that is the first message."""
    text = texts.marked(_after_system(_SYSTEM, *_conversation(_FIRST)))
    parts = _around(text, _SYSTEM, _FIRST + form.after)
    if parts is None or parts[2]:
        return form
    opened = replace(form, system=parts[0], after_system=parts[1])
    opened = _trimming(opened, "system", texts)
    probes = [_after_system(_SYSTEM, *_conversation(_FIRST))]
    if form.between is not None:
        probes.append(_after_system(_SYSTEM, *_ALL))
    return opened if _renders(opened, probes, texts) else form


def _continues(form: ChatFormat, texts: _Template) -> bool:
    """Whether the format begins a last answer as the template does."""
    if form.between is None:
        return False
    for opened in ([], [] if form.system is None else _after_system(_SYSTEM)):
        probe = [*opened, *_conversation(_FIRST, _ANSWER, _SECOND, _REPLY)]
        text = texts.dated(probe, answers=False)
        begun = replace(form, continues=True)
        if text is None or not text.startswith(begun.text(probe, True, _A_DAY.strftime).text):
            return False
    return True


def _odd(form: ChatFormat, texts: _Template) -> list[str]:
    """The roles and kinds of texts that the template does not write as the format does."""
    thinking = f"<think>\n{_REPLY}\n{_THINKING_ENDS}\n\n"
    kinds = {
        "empty": ["", " \n"],
        "spaces": [" MARK", "MARK\n", "\n\n MARK \n", " \n"],
        "thinking": [
            f"{thinking}MARK",
            f"{_REPLY}{_THINKING_ENDS}MARK",
            f"MARK{_THINKING_ENDS}",
            "<think>MARK",
            f"{thinking}{thinking} MARK ",
        ],
    }
    return [
        f"{where}:{kind}"
        for where, conversations in _probes(form).items()
        for kind, patterns in kinds.items()
        if not _renders(
            form,
            [
                _changed(messages, where.removeprefix("system+"), pattern)
                for messages in conversations
                for pattern in patterns
            ],
            texts,
        )
    ]


def _probes(form: ChatFormat) -> dict[str, list[_Conversation]]:
    """Conversations that a format covers, by the roles whose texts are changed in them."""
    plain = [_conversation(_FIRST)]
    if form.between is not None:
        plain += [_conversation(_FIRST, _ANSWER, _SECOND), _ALL]
    probes = {"user": plain}
    if form.between is not None:
        probes["assistant"] = plain[1:]
    if form.system is not None:
        opened = [_after_system(_SYSTEM, *each) for each in plain]
        probes["system"] = opened
        probes |= {f"system+{role}": opened for role in [*probes] if role != "system"}
    return probes


def _changed(messages: _Conversation, role: str, pattern: str) -> _Conversation:
    """The conversation with other texts of a role."""
    return [
        {**message, "content": pattern.replace("MARK", message["content"])}
        if message["role"] == role
        else message
        for message in messages
    ]


def _renders(form: ChatFormat, probes: list[_Conversation], texts: _Template) -> bool:
    """Whether the format renders these conversations as the template does."""
    return all(
        form.text(probe, date=_A_DAY.strftime).text == texts.dated(probe) for probe in probes
    )


def _trimming(form: ChatFormat, role: str, texts: _Template) -> ChatFormat:
    """The format that trims the messages of a role, if the template does."""
    probe = {
        "user": _SPACED,
        "assistant": _conversation(_FIRST, f" {_ANSWER}\n", _SECOND),
        "system": _after_system(f" {_SYSTEM}\n", *_conversation(_FIRST)),
    }[role]
    trimmed = replace(form, trims=(*form.trims, role))
    return trimmed if _renders(trimmed, [probe], texts) else form


def _around(text: str | None, *marks: str) -> list[str] | None:
    """The text before, between and after marks; None unless each is there exactly once."""
    if text is None or any(text.count(mark) != 1 for mark in marks):
        return None
    parts = []
    for mark in marks:
        part, found, text = text.partition(mark)
        if not found:
            return None
        parts.append(part)
    return [*parts, text]


def usable_template(template: ChatTemplate | None) -> ChatTemplate | None:
    """The template, if it writes one message of a user, with or without a system prompt.

    Logs why not.
    """
    if template is None:
        return None
    reason = None
    for messages in (_conversation(_FIRST), _after_system(_SYSTEM, *_conversation(_FIRST))):
        try:
            if _FIRST in template.render(messages):
                return template
        except UsageError as error:
            reason = str(error)
            if isinstance(error, TemplateStoppedError):  # it would take as long again
                break
    logger.warning(
        "the chat template is left out, so the model does not chat: %s",
        reason or "it does not write a user's message",
    )
    return None


def folder_template(folder: Path) -> ChatTemplate | None:
    """The chat template of a checkpoint folder, if it has one.

    It is in `chat_template.jinja` or in `tokenizer_config.json`.

    Raises:
        EdgespecError: one of these files is corrupt.
    """
    template = _template(folder, _settings(folder))
    return None if template is None else ChatTemplate(template, special_tokens(folder))


def special_tokens(folder: Path) -> dict[str, str]:
    """Texts of a checkpoint folder's special tokens by name, as transformers finds them.

    `special_tokens_map.json` is read only for an older tokenizer_config.json, which lacks
    `added_tokens_decoder`.

    Raises:
        EdgespecError: one of these files is corrupt.
    """
    settings = _settings(folder)
    path = folder / "special_tokens_map.json"
    if path.is_file() and "added_tokens_decoder" not in settings:
        settings = {**settings, **read_json_object(path)}
    named = {key: value for key, value in settings.items() if key.endswith("_token")}
    extra = settings.get("extra_special_tokens")
    if isinstance(extra, dict):
        named |= extra
    tokens = {key: _token(value) for key, value in named.items()}
    return {key: token for key, token in tokens.items() if token is not None}


def _settings(folder: Path) -> JsonObject:
    path = folder / "tokenizer_config.json"
    return read_json_object(path) if path.is_file() else {}


def _template(folder: Path, settings: JsonObject) -> str | None:
    path = folder / "chat_template.jinja"
    if path.is_file():
        try:
            return path.read_text(encoding="utf-8-sig")
        except (OSError, ValueError) as error:
            raise EdgespecError(f"{path}: cannot be read ({error})") from error
    template = settings.get("chat_template")
    if isinstance(template, list):  # several, by name
        entries = [entry for entry in template if isinstance(entry, dict)]
        defaults = [entry.get("template") for entry in entries if entry.get("name") == "default"]
        template = defaults[-1] if defaults else None
    return template if isinstance(template, str) else None


def _token(token: JsonValue) -> str | None:
    content = token.get("content") if isinstance(token, dict) else token
    return content if isinstance(content, str) else None
