"""A chat template as the texts around messages, so that a device does not need Jinja."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from edgespec.artifact.chat_format import ChatFormat
from edgespec.errors import EdgespecError, UsageError
from edgespec.tools.jinja_template import ChatTemplate
from edgespec_export.checkpoint.json_file import JsonObject, JsonValue, read_json_object

__all__ = ["chat_format", "folder_chat", "folder_template", "special_tokens"]


def _conversation(*texts: str) -> list[dict[str, str]]:
    """Messages of a user and an assistant in turn; the user begins."""
    roles = ("user", "assistant")
    return [{"role": roles[index % 2], "content": text} for index, text in enumerate(texts)]


# Texts that no template contains, one for each message of a conversation.
_SYSTEM, _FIRST, _ANSWER, _SECOND, _REPLY, _THIRD = (
    f"edgeSpec\u2063{name}\u2063Text" for name in ("system", "1", "answer", "2", "reply", "3")
)
_THINKING_ENDS = "</think>"
_SPACED = _conversation(f" {_FIRST}\n")
_THOUGHT = _conversation(_FIRST, f"<think>\n{_REPLY}\n{_THINKING_ENDS}\n\n{_ANSWER}", _SECOND)

_Render = Callable[[list[dict[str, str]]], str | None]


def chat_format(
    template: str, special_tokens: Mapping[str, str] | None = None
) -> ChatFormat | None:
    """The texts that a template writes around messages, found by rendering it.

    Each optional part (system prompt, earlier turns, hidden thinking) is kept only if it renders
    test conversations of one to three questions as the template does: with and without white space
    around messages, with empty messages and with thinking. A template that prints the date keeps
    the date of the export.

    Args:
        template: Jinja, as transformers renders it; it runs in Jinja's sandbox.
        special_tokens: the values of `bos_token` and similar names in the template.

    Returns:
        None if the template cannot render one user message, or if its text does not contain the
        message exactly once, as it is or without the white space around it.
    """

    jinja = ChatTemplate(template, dict(special_tokens or {}))

    def render(messages: list[dict[str, str]]) -> str | None:
        try:
            return jinja.render(messages)
        except UsageError:
            return None

    single = _around(render(_conversation(_FIRST)), _FIRST)
    if single is None:
        return None
    before, after = single
    form = _trimming(ChatFormat(before, after), "user", render)
    if not _renders(form, [_SPACED], render):
        return None
    return _with_system(_with_turns(form, render), render)


def _with_turns(form: ChatFormat, render: _Render) -> ChatFormat:
    """The format with the texts around earlier answers, if they render all probes correctly."""
    text = render(_conversation(_FIRST, _ANSWER, _SECOND))
    parts = _around(text, form.before + _FIRST, _ANSWER, _SECOND + form.after)
    if parts is None or parts[0] or parts[3]:
        return form
    turns = replace(form, before_answer=parts[1], between=parts[2])
    turns = _hiding(_trimming(turns, "assistant", render), render)
    probes = [
        _conversation(_FIRST, _ANSWER, _SECOND, _REPLY, _THIRD),
        _conversation(
            f" {_FIRST}\n", f"\n {_ANSWER} ", f" {_SECOND}\n", f" {_REPLY}\n", f" {_THIRD}"
        ),
        _conversation(_FIRST, "", _SECOND),
        _conversation(f"{_REPLY}{_THINKING_ENDS}{_FIRST}", _ANSWER, _SECOND),
        _conversation(
            _FIRST, f"{_REPLY}{_THINKING_ENDS}{_REPLY}{_THINKING_ENDS} {_ANSWER} ", _SECOND
        ),
        _THOUGHT,
    ]
    return turns if _renders(turns, probes, render) else form


def _hiding(form: ChatFormat, render: _Render) -> ChatFormat:
    """The format that removes the thinking from earlier answers, if the template does."""
    hides = replace(form, hides=_THINKING_ENDS)
    for hiding in (hides, replace(hides, hides_newlines=True)):
        if _renders(hiding, [_THOUGHT], render):
            return hiding
    return form


def _with_system(form: ChatFormat, render: _Render) -> ChatFormat:
    """The format with the texts around a system prompt, if that is the first message."""
    system = {"role": "system", "content": _SYSTEM}
    parts = _around(render([system, *_conversation(_FIRST)]), _SYSTEM, _FIRST + form.after)
    if parts is None or parts[2]:
        return form
    opened = replace(form, system=parts[0], after_system=parts[1])
    opened = _trimming(opened, "system", render)
    spaced = {"role": "system", "content": f" {_SYSTEM}\n"}
    probes = [[spaced, *_SPACED], [{"role": "system", "content": ""}, *_conversation(_FIRST)]]
    if form.between is not None:
        probes.append([spaced, *_conversation(_FIRST, _ANSWER, _SECOND)])
    return opened if _renders(opened, probes, render) else form


def _renders(form: ChatFormat, probes: list[list[dict[str, str]]], render: _Render) -> bool:
    """Whether the format renders these conversations as the template does."""
    return all(form.text(probe)[0] == render(probe) for probe in probes)


def _trimming(form: ChatFormat, role: str, render: _Render) -> ChatFormat:
    """The format that trims the messages of a role, if the template does."""
    probe = {
        "user": _SPACED,
        "assistant": _conversation(_FIRST, f" {_ANSWER}\n", _SECOND),
        "system": [{"role": "system", "content": f" {_SYSTEM}\n"}, *_conversation(_FIRST)],
    }[role]
    trimmed = replace(form, trims=(*form.trims, role))
    return trimmed if _renders(trimmed, [probe], render) else form


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


def folder_chat(folder: Path) -> ChatFormat | None:
    """The chat format of a checkpoint folder; None without a template that `chat_format` accepts.

    Raises:
        EdgespecError: a file that may have the template is corrupt.
    """
    template = folder_template(folder)
    return None if template is None else chat_format(template.template, template.special_tokens)


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
