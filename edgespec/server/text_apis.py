"""The interfaces that make texts: which path has which requests and answers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from edgespec.anthropic import messages_request
from edgespec.anthropic.messages_answer import MessageAnswer
from edgespec.anthropic.messages_request import message_request
from edgespec.errors import UsageError
from edgespec.ollama import ollama_request
from edgespec.ollama.ollama_answer import OllamaAnswer
from edgespec.ollama.ollama_request import (
    asks_for_no_text,
    ollama_chat_request,
    ollama_text_request,
)
from edgespec.openai import responses_request
from edgespec.openai.answer_events import Answering, CompletionEvents
from edgespec.openai.json_value import JsonObject
from edgespec.openai.openai_answer import Answer
from edgespec.openai.openai_api import Request, chat_request, text_request
from edgespec.openai.responses_answer import ResponseAnswer
from edgespec.openai.responses_request import response_request
from edgespec.openai.unknown_fields import names_of, unknown_fields
from edgespec.server.http.event_stream import EVENTS, LINES, NAMED_EVENTS, Framing
from edgespec.server.served_model import ServedModel
from edgespec.tools.answer_reader import AnswerForm

__all__ = ["TEXT_APIS", "Asked", "TextApi", "read_message"]


class Asked(NamedTuple):
    """A request, and its answer to come."""

    request: Request
    answer: Answering


@dataclass(frozen=True)
class TextApi:
    """One interface.

    Attributes:
        path: of its requests.
        read: what a request asks of a model; the whole answer if it asks for no text. Raises
            UsageError.
        unknown: names of fields that are not known there.
        framing: of its streams.
        names: of fields that have another name in OpenAI's chat completions, by that name.
    """

    path: str
    read: Callable[[JsonObject, ServedModel], Asked | JsonObject]
    unknown: Callable[[JsonObject], Iterator[str]]
    framing: Framing
    names: Mapping[str, str] = field(default_factory=dict)

    def named(self, error: UsageError) -> UsageError:
        """An error that begins with a field's name, with its name in this interface."""
        name, _, said = str(error).partition(" ")
        if name not in self.names or type(error) is not UsageError:
            return error
        return UsageError(f"{self.names[name]} {said}")


def _completion(is_chat: bool, body: JsonObject, model: ServedModel) -> Asked:
    read = chat_request if is_chat else text_request
    request = read(body, model.pair.manifest.generation)
    form = request.answer_form(model.pair)
    echoes = request.echoes(model.pair.tokenizer)
    answer = Answer(model.name, is_chat, model.token_texts, form, request.n, echoes)
    return Asked(request, CompletionEvents(answer, request.counts))


def _response(body: JsonObject, model: ServedModel) -> Asked:
    request = response_request(body, model.pair.manifest.generation)
    answer = ResponseAnswer(model.name, request.answer_form(model.pair), body)
    return Asked(request, answer)


def read_message(body: JsonObject, model: ServedModel) -> Asked:
    """A request for one of Anthropic's messages."""
    request = message_request(body, model.pair.manifest.generation)
    stops = request.options.get("stop", ())
    form = request.answer_form(model.pair)
    answer = MessageAnswer(model.name, form, [stops] if isinstance(stops, str) else stops)
    return Asked(request, answer)


def _ollama(is_chat: bool, body: JsonObject, model: ServedModel) -> Asked | JsonObject:
    if asks_for_no_text(body, is_chat):
        return OllamaAnswer(model.name, AnswerForm(), is_chat).loaded()
    pair = model.pair
    own, capacity = pair.manifest.generation, pair.target.capacity
    request = (
        ollama_chat_request(body, own, capacity)
        if is_chat
        else ollama_text_request(body, own, capacity, pair.manifest.chats)
    )
    return Asked(request, OllamaAnswer(model.name, request.answer_form(pair), is_chat))


def _top(known: Collection[str]) -> Callable[[JsonObject], Iterator[str]]:
    return lambda body: names_of(body, known)


RESPONSES = {
    *(*responses_request.SAME, *responses_request.HARMLESS, *responses_request.ABSENT),
    *("input", "instructions", "tools", "tool_choice", "reasoning", "text"),
}
MESSAGES = {
    *(*messages_request.SAME, *messages_request.HARMLESS, *messages_request.ABSENT),
    *("messages", "system", "tools", "tool_choice", "thinking", "output_config", "output_format"),
}
OLLAMA = {
    *ollama_request.ABSENT,
    *("model", "messages", "tools", "prompt", "system", "stream", "options", "format", "think"),
    *("keep_alive", "raw"),
}


def _names(there: Mapping[str, str]) -> Mapping[str, str]:
    """The other way round: the names here, by those there; only where they differ."""
    return {other: here for here, other in there.items() if here != other}


RESPONSE_NAMES = _names(
    {"text.format": "response_format", "reasoning.effort": "reasoning_effort"}
    | responses_request.SAME
)
OLLAMA_NAMES = _names({"think": "reasoning_effort"} | ollama_request.OPTIONS)
TEXT_APIS = (
    TextApi("/v1/chat/completions", partial(_completion, True), unknown_fields, EVENTS),
    TextApi("/v1/completions", partial(_completion, False), unknown_fields, EVENTS),
    TextApi("/v1/responses", _response, _top(RESPONSES), NAMED_EVENTS, RESPONSE_NAMES),
    TextApi(
        "/v1/messages", read_message, _top(MESSAGES), NAMED_EVENTS, _names(messages_request.SAME)
    ),
    TextApi("/api/chat", partial(_ollama, True), _top(OLLAMA), LINES, OLLAMA_NAMES),
    TextApi("/api/generate", partial(_ollama, False), _top(OLLAMA), LINES, OLLAMA_NAMES),
)
