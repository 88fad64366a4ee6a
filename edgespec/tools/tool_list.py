"""The functions that a request offers, as a chat template is shown them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgespec.errors import UsageError, shortened
from edgespec.grammar.grammar import check_schema

__all__ = ["Tool", "read_tools"]

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")  # OpenAI's
MOST = 128


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
