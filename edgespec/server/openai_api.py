"""OpenAI's chat and text completions, as calls of a pair: what is asked, and what is answered.

A field that would change the text and is not known here is refused: a text that was asked for
otherwise would be a wrong text.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgespec.artifact.chat_format import Message
from edgespec.errors import UsageError
from edgespec.pair.generation import Generation
from edgespec.pair.prompt import PromptInput

__all__ = ["Answer", "Request", "chat_request", "text_request"]

# What they mean to OpenAI; the names on the right are `Pair.stream`'s.
OPTIONS = {
    "max_tokens": "max_new_tokens",
    "max_completion_tokens": "max_new_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "min_p": "min_p",
    "seed": "seed",
    "stop": "stop",
    "ignore_eos": "ignore_eos",
}
OURS = {"model", "stream", "stream_options"}
# About the caller, or about a server that is none of ours: no text depends on them.
IDLE = {
    *("user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key"),
    *("prompt_cache_retention", "parallel_tool_calls"),
}
# What asks for more than a text, and its value that asks for nothing.
NEUTRAL: dict[str, Any] = {
    **{"n": 1, "best_of": 1, "echo": False, "suffix": "", "tools": [], "functions": []},
    **{"tool_choice": "none", "frequency_penalty": 0, "presence_penalty": 0, "logit_bias": {}},
    **{"logprobs": False, "top_logprobs": 0, "response_format": {"type": "text"}},
    **{"modalities": ["text"]},
}
# OpenAI's, where nothing is said.
USUAL = {"temperature": 1.0}
USUAL_OF_TEXTS = {**USUAL, "max_new_tokens": 16}


@dataclass(frozen=True)
class Request:
    """Attributes:
    given: what to go on from.
    options: of `Pair.stream`.
    streams: the answer is wanted piece by piece.
    counts: behind a streamed answer, how many tokens it took is wanted, too.
    """

    given: PromptInput
    options: dict[str, Any]
    streams: bool
    counts: bool


def chat_request(body: Mapping[str, Any]) -> Request:
    """What a call of chat completions asks for.

    Raises:
        UsageError: a field is unknown, or of another kind.
    """
    messages = body.get("messages")
    if not isinstance(messages, list):
        raise UsageError(f"messages is {messages!r:.80}; give a list of them")
    given = [_message(message) for message in messages]
    return _request(body, "messages", given, USUAL)


def text_request(body: Mapping[str, Any]) -> Request:
    """What a call of completions asks for; see `chat_request`."""
    prompt = body.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], (str, list)):
        (prompt,) = prompt
    if not isinstance(prompt, (str, list)):
        raise UsageError(f"prompt is {prompt!r:.80}; give a text, or token ids")
    return _request(body, "prompt", prompt, USUAL_OF_TEXTS)


def _request(
    body: Mapping[str, Any], what: str, given: PromptInput, usual: Mapping[str, Any]
) -> Request:
    asked = {name: value for name, value in body.items() if value is not None}
    options = dict(usual)
    for name, value in asked.items():
        if name in OPTIONS:
            options[OPTIONS[name]] = value
        elif name in NEUTRAL:
            if value != NEUTRAL[name]:
                raise UsageError(f"{name} is {value!r:.80}; only {NEUTRAL[name]!r} is known here")
        elif name not in OURS | IDLE | {what}:
            raise UsageError(f"{name} is not known here; leave it out")
    wanted = asked.get("stream_options", {})
    return Request(
        given,
        options,
        streams=asked.get("stream", False) is True,
        counts=isinstance(wanted, Mapping) and wanted.get("include_usage") is True,
    )


def _message(message: Any) -> Message:
    """Its content as one text; a developer is who writes the system prompt.

    Programs send an answer back with all the fields that it might have had, empty.
    """
    if not isinstance(message, Mapping):
        raise UsageError(f"a message is {message!r:.80}; give a role and a content")
    role, content = message.get("role"), message.get("content")
    if isinstance(content, list):
        parts = [part if isinstance(part, Mapping) else {} for part in content]
        kinds = {part.get("type") for part in parts}
        if kinds != {"text"} or not all(isinstance(part.get("text"), str) for part in parts):
            raise UsageError(f"a message's content is {content!r:.80}; only text is known here")
        content = "".join(part["text"] for part in parts)
    role = "system" if role == "developer" else role
    said = {name: value for name, value in message.items() if value not in (None, [])}
    shown: dict[str, Any] = {**said, "role": role, "content": content}
    return shown


class Answer:
    """The objects that answer one request.

    Args:
        model: its name.
        chats: they are those of chat completions.
    """

    def __init__(self, model: str, chats: bool) -> None:
        self._kind = "chat.completion" if chats else "text_completion"
        self._chats = chats
        self._same = {
            "id": f"{'chatcmpl' if chats else 'cmpl'}-{uuid.uuid4().hex}",
            "created": int(time.time()),
            "model": model,
        }

    def whole(self, result: Generation) -> dict[str, Any]:
        """All of it at once."""
        message = {"role": "assistant", "content": result.text}
        said = {"message": message} if self._chats else {"text": result.text}
        return {
            "object": self._kind,
            **self._same,
            "choices": [_choice(said, _reason(result))],
            "usage": _usage(result),
        }

    def begin(self) -> dict[str, Any]:
        """In front of the pieces."""
        return self._piece({"role": "assistant", "content": ""} if self._chats else "", None)

    def piece(self, text: str) -> dict[str, Any]:
        return self._piece({"content": text} if self._chats else text, None)

    def end(self, result: Generation) -> dict[str, Any]:
        """Behind the pieces."""
        return self._piece({} if self._chats else "", _reason(result))

    def counts(self, result: Generation) -> dict[str, Any]:
        """Behind the end, where that was asked for."""
        return {"object": self._piece_kind, **self._same, "choices": [], "usage": _usage(result)}

    @property
    def _piece_kind(self) -> str:
        return f"{self._kind}.chunk" if self._chats else self._kind

    def _piece(self, said: Any, reason: str | None) -> dict[str, Any]:
        choice = _choice({"delta" if self._chats else "text": said}, reason)
        return {"object": self._piece_kind, **self._same, "choices": [choice]}


def _choice(said: dict[str, Any], reason: str | None) -> dict[str, Any]:
    return {"index": 0, **said, "logprobs": None, "finish_reason": reason}


def _reason(result: Generation) -> str:
    return "stop" if result.finish_reason in ("eos", "stop") else "length"


def _usage(result: Generation) -> dict[str, Any]:
    """Counts of tokens; of what a draft proposed, what the target accepted and what it did not."""
    made, stats = len(result.token_ids), result.stats
    accepted = stats.accepted + stats.committed
    return {
        "prompt_tokens": result.prompt_tokens,
        "completion_tokens": made,
        "total_tokens": result.prompt_tokens + made,
        "completion_tokens_details": {
            "accepted_prediction_tokens": accepted,
            "rejected_prediction_tokens": stats.drafted + stats.candidates - accepted,
        },
    }
