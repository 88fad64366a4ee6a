"""Claim: a wrong value is refused by the name that its field has in the interface."""

from __future__ import annotations

import pytest

import edgespec

pytest.importorskip("starlette")

from starlette.testclient import TestClient

from edgespec.artifact.chat_format import user_message
from edgespec.ollama import ollama_request
from edgespec.openai.openai_fields import NUMBERS, TEXT_TYPES, TYPES
from edgespec.server.app import application
from serving import CHAT, DRAFTED, TEXT

RESPONSES, MESSAGES = "/v1/responses", "/v1/messages"
OLLAMA_CHAT, OLLAMA_TEXT = "/api/chat", "/api/generate"
ASKED = {"messages": [user_message("hi")]}
REQUESTS = {
    CHAT: ASKED,
    TEXT: {"prompt": "hi"},
    RESPONSES: {"input": "hi"},
    MESSAGES: {**ASKED, "max_tokens": 2},
    OLLAMA_CHAT: {**ASKED, "stream": False},
    OLLAMA_TEXT: {"prompt": "hi", "stream": False},
}
FIELDS = {
    CHAT: {*TYPES, "messages"} - {"model"},
    TEXT: {*TEXT_TYPES, "prompt"} - {"model"},
    RESPONSES: {"input", "instructions", "max_output_tokens", "temperature", "top_p", "reasoning"}
    | {"text", "stream", "previous_response_id"},
    MESSAGES: {"messages", "system", "max_tokens", "temperature", "top_k", "stop_sequences"}
    | {"stream", "thinking", "output_format", "output_config"},
    OLLAMA_CHAT: {"messages", "think", "stream", "options"},
    OLLAMA_TEXT: {"prompt", "system", "think", "stream", "options"},
}
NOTHING = {
    CHAT: ("messages", "messages is []; give at least one message"),
    TEXT: ("prompt", "prompt is []; give at least one token"),
    RESPONSES: ("input", "input is []; give at least one item"),
    MESSAGES: ("messages", "messages is []; give at least one message"),
}


@pytest.fixture(scope="module")
def client(chat_folder):
    pair = edgespec.load(chat_folder, threads=1)
    with TestClient(application({"small": pair}, DRAFTED), base_url="http://localhost") as client:
        yield client


def refused(client, path, **fields):
    """What is said about a request, and the field that OpenAI's object names."""
    answer = client.post(path, json={**REQUESTS[path], **fields})
    assert answer.status_code == 400, (fields, answer.text)
    error = answer.json()["error"]
    return (error, None) if isinstance(error, str) else (error["message"], error.get("param"))


@pytest.mark.parametrize("path", REQUESTS)
def test_a_field_of_a_wrong_type_is_named(client, path):
    names_field = path.startswith("/v1/") and path != MESSAGES
    for name in FIELDS[path]:
        wrong = "x" if name in NUMBERS else 1.5
        said, field = refused(client, path, **{name: wrong})
        assert said.startswith(f"{name} is {wrong!r}"), said
        assert field == (name if names_field else None)


def test_an_option_of_ollama_is_named(client):
    for path in (OLLAMA_CHAT, OLLAMA_TEXT):
        for name in ollama_request.OPTIONS:
            said, _ = refused(client, path, options={name: ["x", 1]})
            assert said.startswith(f"{name} is ['x', 1]"), said


@pytest.mark.parametrize("path", NOTHING)
def test_a_request_about_nothing_says_what_is_missing(client, path):
    name, said = NOTHING[path]
    assert refused(client, path, **{name: []}) == (said, None if path == MESSAGES else name)


@pytest.mark.parametrize(
    ("path", "fields", "begins"),
    [
        (CHAT, {"max_tokens": -1}, "max_tokens is -1; give a whole number from 1"),
        (TEXT, {"max_tokens": -1}, "max_tokens is -1; give a whole number from 0"),
        (RESPONSES, {"max_output_tokens": -1}, "max_output_tokens is -1; give a whole number"),
        (MESSAGES, {"max_tokens": -1}, "max_tokens is -1; give a whole number from 1"),
        (OLLAMA_CHAT, {"options": {"num_predict": -3}}, "num_predict is -3; give a whole number"),
        (OLLAMA_CHAT, {"options": {"repeat_penalty": -1}}, "repeat_penalty is -1; give a number"),
        (MESSAGES, {"stop_sequences": [""]}, "stop_sequences is ['']; give a text that is not"),
    ],
)
def test_a_number_out_of_range_is_named(client, path, fields, begins):
    assert refused(client, path, **fields)[0].startswith(begins)
