"""The messages of a conversation, as clients send them and as chat templates read them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from edgespec.artifact.chat_format import check_unicode
from edgespec.chat.chat_template import ChatTemplate
from edgespec.errors import UsageError, shortened

__all__ = ["read_messages"]

ROLES = ("system", "developer", "user", "assistant", "tool")
REASONING = ("reasoning_content", "thinking", "reasoning")  # as in transformers


def read_messages(
    messages: Sequence[object], template: ChatTemplate | None
) -> list[dict[str, object]]:
    """A conversation as chat templates read it.

    Fields that are null or empty lists are dropped, as transformers does. Parts of text become
    one text, unless the template takes parts. The arguments of calls become objects. A developer's
    message is a system's where the template does not know developers. Reasoning has all the names
    that templates give it.

    Args:
        messages: as in OpenAI's requests.
        template: of the model; None where it cannot be rendered here.

    Raises:
        UsageError: it is no conversation.
    """
    return [_message(message, number, template) for number, message in enumerate(messages, start=1)]


def _message(message: object, number: int, template: ChatTemplate | None) -> dict[str, object]:
    given: Mapping[str, object] = message if isinstance(message, Mapping) else {}
    read = {
        name: value
        for name, value in given.items()
        if value not in (None, [], ()) or (name == "content" and value is not None)
    }
    role = read.get("role")
    if role == "developer" and not (template and template.names("developer")):
        role = "system"
    if not isinstance(role, str) or not (role in ROLES or _is_named(role, template)):
        raise UsageError(
            f"message {number} is {shortened(message)}; give a role "
            f"({', '.join(ROLES)}) and a content that is text"
        )
    read["role"] = role
    if "content" in read:
        read["content"] = _content(read["content"], number, template)
    if "tool_calls" in read:
        read["tool_calls"] = _calls(read["tool_calls"], number)
    reasoning = next((read[name] for name in REASONING if name in read), None)
    if reasoning is not None:
        read = {"thinking": reasoning, **read, "reasoning_content": reasoning}
    return read


def _is_named(role: str, template: ChatTemplate | None) -> bool:
    """Whether a template knows a role by name, such as Llama 3's "ipython"."""
    return template is not None and any(
        template.names(quote + role + quote) for quote in ("'", '"')
    )


def _content(content: object, number: int, template: ChatTemplate | None) -> object:
    """A text, or parts where the template takes them."""
    if isinstance(content, str):
        check_unicode(content, f"message {number}")
        return content
    if not isinstance(content, list | tuple):
        raise UsageError(f"message {number} has the content {shortened(content)}; give a text")
    texts = [_part(part, number) for part in content]
    if template is not None and len(texts) > 0 and template.takes_parts:
        return [{"type": "text", "text": text} for text in texts]
    return "".join(texts)


def _part(part: object, number: int) -> str:
    text = part.get("text") if isinstance(part, Mapping) else part
    if (isinstance(part, Mapping) and part.get("type") != "text") or not isinstance(text, str):
        raise UsageError(
            f"message {number} has the part {shortened(part)} in its content; only text is known "
            "here"
        )
    check_unicode(text, f"message {number}")
    return text


def _calls(calls: object, number: int) -> list[dict[str, object]]:
    if not isinstance(calls, list | tuple):
        raise UsageError(f"message {number} has the tool_calls {shortened(calls)}; give a list")
    return [_call(call, number) for call in calls]


def _call(call: object, number: int) -> dict[str, object]:
    function = call.get("function") if isinstance(call, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    arguments = function.get("arguments") if isinstance(function, Mapping) else None
    if not isinstance(call, Mapping) or not isinstance(name, str):
        raise UsageError(
            f"message {number} has the call {shortened(call)}; give a function with a name and "
            "arguments"
        )
    identity = {"id": call["id"]} if isinstance(call.get("id"), str) else {}
    function = {"name": name, "arguments": _arguments(arguments, number)}
    return {**identity, "type": "function", "function": function}


def _arguments(arguments: object, number: int) -> object:
    """As an object. A text that is none, because a limit cut it off, stays a text."""
    if arguments is None or arguments == "":
        return {}
    if isinstance(arguments, str):
        try:
            parsed = json.loads(arguments)
        except (ValueError, RecursionError):
            return arguments
        return parsed if isinstance(parsed, dict) else arguments
    if not isinstance(arguments, Mapping):
        raise UsageError(
            f"message {number} has a call with the arguments {shortened(arguments)}; give a JSON "
            "object, or its text"
        )
    return arguments
