"""The functions that a request offers, and the messages around calls of them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgespec.errors import UsageError, shortened
from edgespec.grammar.grammar import check_schema

__all__ = ["Tool", "read_tools", "template_messages"]

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")  # OpenAI's
MOST = 128
ROLES = ("system", "user", "assistant", "tool")


@dataclass(frozen=True)
class Tool:
    """A function that the model may call.

    Attributes:
        name: letters, digits, "_" and "-".
        parameters: the JSON schema of its arguments: an object.
        shown: what the chat template is given.
    """

    name: str
    parameters: Mapping[str, object]
    shown: Mapping[str, object]


def read_tools(tools: Sequence[Mapping[str, object]]) -> list[Tool]:
    """OpenAI's list of tools: [{"type": "function", "function": {"name": …, "parameters": …}}, …].

    Raises:
        UsageError: it is none, or a function has parameters of an unknown kind.
    """
    if not isinstance(tools, Sequence) or isinstance(tools, str) or not 1 <= len(tools) <= MOST:
        raise UsageError(f"tools is {shortened(tools)}; give a list of 1 to {MOST} functions")
    read = [_tool(tool) for tool in tools]
    names = [tool.name for tool in read]
    twice = [name for index, name in enumerate(names) if name in names[:index]]
    if twice:
        raise UsageError(f"tools has the function {shortened(twice[0])} twice; give each once")
    return read


def _tool(tool: object) -> Tool:
    function = tool.get("function") if isinstance(tool, Mapping) else None
    if not isinstance(tool, Mapping) or not isinstance(function, Mapping):
        raise UsageError(f'a tool is {shortened(tool)}; give {{"type": "function", "function": …}}')
    if tool.get("type") != "function":
        raise UsageError(f"a tool has the type {shortened(tool.get('type'))}; give 'function'")
    name, description = function.get("name"), function.get("description")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise UsageError(
            f"a function's name is {shortened(name)}; give 1 to 64 letters, digits, '_' or '-'"
        )
    if not isinstance(description, str | None):
        raise UsageError(f"the description of {name} is {shortened(description)}; give a text")
    parameters = function.get("parameters") or {"type": "object", "properties": {}}
    if not isinstance(parameters, Mapping) or parameters.get("type") != "object":
        raise UsageError(
            f"the parameters of {name} are {shortened(parameters)}; give a JSON schema of type "
            "'object'"
        )
    check_schema(parameters)
    shown = {"name": name, "description": description or "", "parameters": parameters}
    return Tool(name, parameters, {"type": "function", "function": shown})


def template_messages(messages: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    """A conversation with calls as chat templates read it: their arguments as objects.

    Raises:
        UsageError: it is no conversation.
    """
    return [_message(message, number) for number, message in enumerate(messages, start=1)]


def _message(message: object, number: int) -> dict[str, object]:
    fields: Mapping[str, object] = message if isinstance(message, Mapping) else {}
    role, content = fields.get("role"), fields.get("content")
    calls = fields.get("tool_calls")
    known = {"assistant": {"tool_calls"}, "tool": {"tool_call_id", "name"}}.get(str(role), set())
    if (
        role not in ROLES
        or (not isinstance(content, str) and not (content is None and calls))
        or fields.keys() - known - {"role", "content"}
    ):
        raise UsageError(
            f"message {number} is {shortened(message)}; give a role ({', '.join(ROLES)}) and a "
            "content that is text"
        )
    read: dict[str, object] = {**fields, "content": content or ""}
    if calls:
        if not isinstance(calls, list):
            raise UsageError(f"message {number} has the tool_calls {shortened(calls)}")
        read["tool_calls"] = [_call(call, number) for call in calls]
    return read


def _call(call: object, number: int) -> dict[str, object]:
    function = call.get("function") if isinstance(call, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    arguments = function.get("arguments") if isinstance(function, Mapping) else None
    if (
        not isinstance(call, Mapping)
        or not isinstance(name, str)
        or not isinstance(arguments, str | Mapping)
    ):
        raise UsageError(
            f"message {number} has the call {shortened(call)}; give a function with a name and "
            "with arguments that are a JSON object"
        )
    identity = {"id": call["id"]} if isinstance(call.get("id"), str) else {}
    return {
        **identity,
        "type": "function",
        "function": {"name": name, "arguments": _arguments(arguments)},
    }


def _arguments(given: str | Mapping[str, object]) -> str | Mapping[str, object]:
    """As an object; the text itself where it is none, as in an answer that was cut off."""
    if not isinstance(given, str):
        return given
    try:
        parsed = json.loads(given or "{}")
    except (ValueError, RecursionError):
        return given
    return parsed if isinstance(parsed, dict) else given
