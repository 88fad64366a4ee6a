"""OpenAI's Responses as chat requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from edgespec.artifact.generation_defaults import GenerationDefaults
from edgespec.errors import UsageError, shortened
from edgespec.openai.json_value import JsonObject, JsonValue, renamed
from edgespec.openai.openai_absent import check_absent_of
from edgespec.openai.openai_api import Request, chat_request

__all__ = ["ABSENT", "HARMLESS", "SAME", "response_request"]

# Fields that mean what they mean in chat completions, by their names there.
SAME = {
    **{name: name for name in ("model", "temperature", "top_p", "stream", "seed", "stop")},
    **{name: name for name in ("parallel_tool_calls", "user", "metadata", "store")},
    **{name: name for name in ("top_k", "min_p", "repetition_penalty", "chat_template_kwargs")},
    "max_output_tokens": "max_tokens",
}
# No text depends on them; nothing is stored here, whatever `store` says.
HARMLESS = frozenset(
    {
        *("include", "service_tier", "safety_identifier", "prompt_cache_key", "truncation"),
        *("prompt_cache_retention", "prompt_cache_options", "stream_options", "max_tool_calls"),
    }
)
# They would change the answer; each with the values that ask for nothing.
ABSENT: Mapping[str, tuple[JsonValue, ...]] = {
    **{"previous_response_id": (), "conversation": (), "prompt": ()},
    **{"background": (False,), "top_logprobs": (0,)},
}
WHOLE = "nothing is stored here; send the whole conversation as input"
INSTEAD = {
    **{"previous_response_id": WHOLE, "conversation": WHOLE},
    **{"prompt": "send its text as instructions", "top_logprobs": "ask at /v1/chat/completions"},
}
PART_TYPES = ("input_text", "output_text", "text", "summary_text", "reasoning_text")


def response_request(body: JsonObject, own: GenerationDefaults) -> Request:
    """A request for a response.

    Args:
        own: the model's own settings, for fields that the request does not have.

    Raises:
        UsageError: a value is not allowed, or it asks for what is not there.
    """
    given = {name: value for name, value in body.items() if value is not None}
    check_absent_of(ABSENT, given, INSTEAD)
    fields = renamed(given, SAME)
    fields["messages"] = [*_instructions(given.get("instructions")), *_input(given.get("input"))]
    fields |= _tools(given) | _reasoning(given.get("reasoning")) | _format(given.get("text"))
    return chat_request(fields, own)


def _instructions(text: JsonValue) -> list[JsonValue]:
    if text in (None, ""):
        return []
    if not isinstance(text, str):
        raise UsageError(f"instructions is {shortened(text)}; give a text")
    return [{"role": "system", "content": text}]


def _input(given: JsonValue) -> list[JsonValue]:
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    if not isinstance(given, list) or not given:
        wanted = "at least one item" if given == [] else "a text or a list of items"
        raise UsageError(f"input is {shortened(given)}; give {wanted}")
    messages: list[dict[str, JsonValue]] = []
    for number, item in enumerate(given, start=1):
        _add(messages, item, number)
    return [*messages]


def _add(messages: list[dict[str, JsonValue]], item: JsonValue, number: int) -> None:
    """Adds an item: a message, or what belongs to the answer that is being put together."""
    given: JsonObject = item if isinstance(item, Mapping) else {}
    match given:
        case {"type": "function_call", "call_id": str(name), "name": str(function)}:
            called = {"name": function, "arguments": given.get("arguments", "")}
            calls = cast("list[JsonValue]", _answer(messages).setdefault("tool_calls", []))
            calls.append({"id": name, "type": "function", "function": called})
        case {"type": "function_call_output", "call_id": str(name), "output": output}:
            text = _text(output, number)
            messages.append({"role": "tool", "tool_call_id": name, "content": text})
        case {"type": "reasoning"}:
            parts = given.get("content") or given.get("summary") or []
            messages.append(
                {"role": "assistant", "content": "", "reasoning_content": _text(parts, number)}
            )
        case {"role": "assistant", "content": content}:
            answer = _answer(messages)
            if answer["content"] or "tool_calls" in answer:
                messages.append({"role": "assistant", "content": ""})
                answer = messages[-1]
            answer["content"] = _text(content, number)
        case {"role": str(role), "content": content}:
            messages.append({"role": role, "content": _text(content, number)})
        case _:
            raise UsageError(
                f"input {number} is {shortened(item)}; messages, function_call, "
                "function_call_output and reasoning are known here"
            )


def _answer(messages: list[dict[str, JsonValue]]) -> dict[str, JsonValue]:
    """The model's answer at the end, which thinking or calls have begun; a new one else."""
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant", "content": ""})
    return messages[-1]


def _text(content: JsonValue, number: int) -> str:
    """A text, or the texts of its parts."""
    if isinstance(content, str):
        return content
    parts: Sequence[JsonValue] = content if isinstance(content, list) else [content]
    texts: list[str] = []
    for part in parts:
        kind = part.get("type") if isinstance(part, Mapping) else None
        text = part.get("text") if isinstance(part, Mapping) else None
        if kind not in PART_TYPES or not isinstance(text, str):
            raise UsageError(
                f"input {number} has the part {shortened(part)}; only text is known here"
            )
        texts.append(text)
    return "".join(texts)


def _tools(given: JsonObject) -> dict[str, JsonValue]:
    tools, choice = given.get("tools", []), given.get("tool_choice", "auto")
    if not isinstance(tools, list):
        raise UsageError(f"tools is {shortened(tools)}; give a list of tools")
    if not tools:
        return {}
    if isinstance(choice, Mapping) and choice.get("type") == "function":
        choice = {"type": "function", "function": {"name": choice.get("name")}}
    return {"tools": [_tool(tool) for tool in tools], "tool_choice": choice}


def _tool(tool: JsonValue) -> JsonObject:
    if not isinstance(tool, Mapping) or tool.get("type") != "function":
        raise UsageError(f"a tool is {shortened(tool)}; give functions: type, name and parameters")
    names = ("name", "description", "parameters", "strict")
    function = {name: tool[name] for name in names if tool.get(name) is not None}
    return {"type": "function", "function": function}


def _reasoning(reasoning: JsonValue) -> dict[str, JsonValue]:
    if reasoning is None:
        return {}
    if not isinstance(reasoning, Mapping):
        raise UsageError(f"reasoning is {shortened(reasoning)}; give an object")
    effort = reasoning.get("effort")
    return {} if effort is None else {"reasoning_effort": effort}


def _format(text: JsonValue) -> dict[str, JsonValue]:
    """The form of the answer, which Responses have in `text.format`, without an object within."""
    if text is None:
        return {}
    if not isinstance(text, Mapping):
        raise UsageError(f"text is {shortened(text)}; give an object with a format")
    form = text.get("format")
    if form is None:
        return {}
    if isinstance(form, Mapping) and form.get("type") == "json_schema":
        inner = {name: value for name, value in form.items() if name != "type"}
        return {"response_format": {"type": "json_schema", "json_schema": inner}}
    if isinstance(form, Mapping) and form.get("type") == "grammar":
        return {"response_format": {"type": "grammar", "grammar": form.get("grammar")}}
    return {"response_format": form}
