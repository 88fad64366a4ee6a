"""Anthropic's Messages as chat requests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import cast

from edgespec.artifact.generation_defaults import GenerationDefaults
from edgespec.errors import UsageError, shortened
from edgespec.openai.json_value import JsonObject, JsonValue, renamed
from edgespec.openai.openai_absent import check_absent_of
from edgespec.openai.openai_api import Request, chat_request

__all__ = ["ABSENT", "HARMLESS", "SAME", "message_request"]

# Fields that mean here what they mean at OpenAI, by their names there.
SAME = {
    **{name: name for name in ("model", "temperature", "top_p", "top_k", "stream", "max_tokens")},
    "stop_sequences": "stop",
}
# No text depends on them.
HARMLESS = frozenset(
    {"metadata", "service_tier", "cache_control", "inference_geo", "betas", "speed"}
)
# They would change the answer; each with the values that ask for nothing.
ABSENT: Mapping[str, tuple[JsonValue, ...]] = {
    **{"container": (), "mcp_servers": ([],), "context_management": ()},
}
TOOL_TYPES = (None, "custom")


def message_request(body: JsonObject, own: GenerationDefaults) -> Request:
    """A request for a message.

    Args:
        own: the model's own settings, for fields that the request does not have.

    Raises:
        UsageError: a value is not allowed, or it asks for what is not there.
    """
    given = {name: value for name, value in body.items() if value is not None}
    check_absent_of(ABSENT, given)
    fields = renamed(given, SAME)
    fields["messages"] = [*_system(given.get("system")), *_messages(given.get("messages"))]
    fields |= _tools(given) | _thinking(given.get("thinking"))
    for name in ("output_format", "output_config"):
        fields |= _format(name, given.get(name))
    return chat_request(fields, own)


def _system(system: JsonValue) -> list[JsonValue]:
    if system in (None, "", []):
        return []
    return [{"role": "system", "content": _text(system, "system")}]


def _messages(messages: JsonValue) -> list[JsonValue]:
    if not isinstance(messages, list) or not messages:
        wanted = "at least one message" if messages == [] else "a list of messages"
        raise UsageError(f"messages is {shortened(messages)}; give {wanted}")
    return [
        part for number, message in enumerate(messages, 1) for part in _message(message, number)
    ]


def _message(message: JsonValue, number: int) -> list[JsonValue]:
    """One message, or several where results of tools are among its blocks."""
    role = message.get("role") if isinstance(message, Mapping) else None
    if not isinstance(message, Mapping) or role not in ("user", "assistant", "system"):
        raise UsageError(
            f"message {number} is {shortened(message)}; give a role (user, assistant) and a content"
        )
    content = message.get("content")
    if isinstance(content, str):
        return [{"role": role, "content": content}]
    if not isinstance(content, list):
        raise UsageError(
            f"message {number} has the content {shortened(content)}; give a text or blocks"
        )
    return _of_blocks(role, content, number)


def _of_blocks(role: str, blocks: Sequence[JsonValue], number: int) -> list[JsonValue]:
    texts: list[str] = []
    thinking: list[str] = []
    calls: list[JsonValue] = []
    results: list[JsonValue] = []
    for block in blocks:
        kind = block.get("type") if isinstance(block, Mapping) else None
        match kind, block:
            case "text", {"text": str(text)}:
                texts.append(text)
            case "thinking", {"thinking": str(text)}:
                thinking.append(text)
            case "redacted_thinking", _:
                continue
            case "tool_use", {"id": str(name), "name": str(function), "input": Mapping() as given}:
                called = {"name": function, "arguments": json.dumps(given, ensure_ascii=False)}
                calls.append({"id": name, "type": "function", "function": called})
            case "tool_result", {"tool_use_id": str(name)}:
                said = block.get("content") if isinstance(block, Mapping) else None
                text = "" if said is None else _text(said, f"message {number}'s tool_result")
                results.append({"role": "tool", "tool_call_id": name, "content": text})
            case _:
                raise UsageError(
                    f"message {number} has the block {shortened(block)}; text, thinking, tool_use "
                    "and tool_result are known here"
                )
    message: dict[str, JsonValue] = {"role": role, "content": "".join(texts)}
    if thinking:
        message["reasoning_content"] = "".join(thinking)
    if calls:
        message["tool_calls"] = calls
    return [*results, message] if texts or calls or thinking or not results else results


def _text(content: JsonValue, where: str) -> str:
    """A text, or the texts of a list of blocks."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else [content]
    texts = [block.get("text") if isinstance(block, Mapping) else None for block in blocks]
    if not all(isinstance(text, str) for text in texts):
        raise UsageError(f"{where} is {shortened(content)}; only text is known here")
    return "".join(cast("list[str]", texts))


def _tools(given: JsonObject) -> dict[str, JsonValue]:
    tools, choice = given.get("tools", []), given.get("tool_choice", {"type": "auto"})
    if not isinstance(tools, list):
        raise UsageError(f"tools is {shortened(tools)}; give a list of tools")
    if not isinstance(choice, Mapping):
        raise UsageError(f"tool_choice is {shortened(choice)}; give an object with a type")
    if not tools:
        return {}
    fields: dict[str, JsonValue] = {"tools": [_tool(tool) for tool in tools]}
    match choice:
        case {"type": "auto" | "none" as kind}:
            fields["tool_choice"] = kind
        case {"type": "any"}:
            fields["tool_choice"] = "required"
        case {"type": "tool", "name": str(name)}:
            fields["tool_choice"] = {"type": "function", "function": {"name": name}}
        case _:
            raise UsageError(
                f"tool_choice is {shortened(choice)}; give the type auto, any, none, or tool with "
                "a name"
            )
    if choice.get("disable_parallel_tool_use") is True:
        fields["parallel_tool_calls"] = False
    return fields


def _tool(tool: JsonValue) -> JsonObject:
    if not isinstance(tool, Mapping) or tool.get("type") not in TOOL_TYPES:
        raise UsageError(
            f"a tool is {shortened(tool)}; give functions of your own: name, description and "
            "input_schema"
        )
    function = {"name": tool.get("name"), "parameters": tool.get("input_schema")}
    if (description := tool.get("description")) is not None:
        function["description"] = description
    return {"type": "function", "function": function}


def _thinking(thinking: JsonValue) -> dict[str, JsonValue]:
    """Whether the model thinks, and how long; a model that knows no switch does as it is."""
    match thinking:
        case None:
            return {}
        case {"type": "disabled"}:
            return {"enable_thinking": False}
        case {"type": "enabled", "budget_tokens": budget}:
            return {"enable_thinking": True, "thinking_budget": budget}
        case {"type": "enabled" | "adaptive"}:
            return {"enable_thinking": True}
    raise UsageError(
        f"thinking is {shortened(thinking)}; give the type enabled with budget_tokens, adaptive, "
        "or disabled"
    )


def _format(name: str, config: JsonValue) -> dict[str, JsonValue]:
    """A JSON schema that the answer fits."""
    form = config.get("format", config) if isinstance(config, Mapping) else config
    match form:
        case None | {}:
            return {}
        case {"type": "json_schema", "schema": schema}:
            return {"response_format": {"type": "json_schema", "json_schema": {"schema": schema}}}
        case {"effort": _}:
            return {}
    raise UsageError(f"{name} is {shortened(config)}; give a format of the type json_schema")
