"""Requests of Ollama's API as chat requests and completions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from edgespec.artifact.generation_defaults import GenerationDefaults
from edgespec.errors import UsageError, shortened
from edgespec.openai.json_value import JsonObject, JsonValue, renamed
from edgespec.openai.openai_absent import check_absent_of
from edgespec.openai.openai_api import Request, chat_request, text_request

__all__ = [
    "HARMLESS",
    "OPTIONS",
    "asks_for_no_text",
    "ollama_chat_request",
    "ollama_text_request",
]

# Options that are here, by the names of OpenAI's fields.
OPTIONS = {
    **{name: name for name in ("temperature", "top_k", "top_p", "min_p", "seed", "stop")},
    **{"presence_penalty": "presence_penalty", "frequency_penalty": "frequency_penalty"},
    **{"num_predict": "max_tokens", "repeat_penalty": "repetition_penalty"},
}
# About the machine, or without effect where the option that it belongs to is not there.
HARMLESS = frozenset(
    {
        *("numa", "num_ctx", "num_batch", "num_gpu", "main_gpu", "low_vram", "f16_kv", "num_keep"),
        *("logits_all", "vocab_only", "use_mmap", "use_mlock", "embedding_only", "num_thread"),
        *("repeat_last_n", "mirostat_tau", "mirostat_eta", "penalize_newline", "draft_num_predict"),
    }
)
# They would change the text; each with the values that ask for nothing.
ABSENT: Mapping[str, tuple[JsonValue, ...]] = {
    **{"tfs_z": (1,), "typical_p": (1,), "mirostat": (0,)},
    **{"template": ("",), "suffix": ("",), "context": ([],), "images": ([],)},
    **{"width": (), "height": (), "steps": (), "logprobs": (False,), "top_logprobs": (0,)},
}
NO_LIMIT = (-1, -2)  # of num_predict


def asks_for_no_text(body: JsonObject, is_chat: bool) -> bool:
    """Whether a request only wants the model to be loaded, as Ollama's own command does first."""
    return body.get("messages") in (None, []) if is_chat else body.get("prompt") in (None, "")


def ollama_chat_request(body: JsonObject, own: GenerationDefaults, capacity: int) -> Request:
    """A request to /api/chat.

    Args:
        own: the model's own settings.
        capacity: tokens of the longest text.

    Raises:
        UsageError: a value is not allowed, or it asks for what is not there.
    """
    fields = _fields(body, capacity)
    messages = body.get("messages")
    if not isinstance(messages, list):
        raise UsageError(f"messages is {shortened(messages)}; give a list of messages")
    fields["messages"] = [_message(message) for message in messages]
    if body.get("tools"):
        fields["tools"] = body["tools"]
    return chat_request(fields, own)


def ollama_text_request(
    body: JsonObject, own: GenerationDefaults, capacity: int, chats: bool
) -> Request:
    """A request to /api/generate: a chat of one message, unless it is raw.

    Args:
        chats: the model has a chat format.

    Raises:
        UsageError: as `ollama_chat_request`.
    """
    fields = _fields(body, capacity)
    prompt, system = body.get("prompt") or "", body.get("system")
    for name, value in (("prompt", prompt), ("system", system or "")):
        if not isinstance(value, str):
            raise UsageError(f"{name} is {shortened(value)}; give a text")
    if body.get("raw") is True or not chats:
        if system and not body.get("raw"):
            raise UsageError(f"system is {shortened(system)}, and this model has no chat format")
        for name in ("enable_thinking", "reasoning_effort"):
            fields.pop(name, None)
        return text_request({**fields, "max_tokens": _length(fields, own), "prompt": prompt}, own)
    messages: list[JsonValue] = [{"role": "system", "content": system}] if system else []
    fields["messages"] = [*messages, {"role": "user", "content": prompt}]
    return chat_request(fields, own)


def _length(fields: JsonObject, own: GenerationDefaults) -> JsonValue:
    """At most as many tokens as a chat's answer has, where none are named."""
    return fields.get("max_tokens", own.length())


def _fields(body: JsonObject, capacity: int) -> dict[str, JsonValue]:
    """The fields that chats and completions share."""
    options = body.get("options") or {}
    if not isinstance(options, Mapping):
        raise UsageError(f"options is {shortened(options)}; give an object")
    given = {name: value for name, value in {**body, **options}.items() if value is not None}
    check_absent_of(ABSENT, given)
    fields = renamed(options, OPTIONS)
    if fields.get("max_tokens") in NO_LIMIT:
        fields["max_tokens"] = capacity
    if (stream := body.get("stream")) is not None and not isinstance(stream, bool):
        raise UsageError(f"stream is {shortened(stream)}; give true or false")
    fields["stream"] = stream is not False
    return fields | _thinking(body.get("think")) | _format(body.get("format"))


def _thinking(think: JsonValue) -> dict[str, JsonValue]:
    if think is None:
        return {}
    if isinstance(think, bool):
        return {"enable_thinking": think}
    return {"reasoning_effort": think}  # a level; its type is checked there


def _format(form: JsonValue) -> dict[str, JsonValue]:
    if form in (None, ""):
        return {}
    if form == "json":
        return {"response_format": {"type": "json_object"}}
    if isinstance(form, Mapping):
        return {"response_format": {"type": "json_schema", "json_schema": {"schema": form}}}
    raise UsageError(f"format is {shortened(form)}; give json or a JSON schema")


def _message(message: JsonValue) -> JsonValue:
    """A message as OpenAI has it: a tool's result names its function, no call."""
    if not isinstance(message, Mapping):
        return message
    if message.get("images"):
        raise UsageError(f"images is {shortened(message['images'])}; only text is known here")
    read = cast("dict[str, JsonValue]", dict(message))
    if (name := read.pop("tool_name", None)) is not None:
        read["name"] = name
    return read
