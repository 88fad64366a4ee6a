"""Claim: any JSON value at any place of a request is an answer or a refusal in one line, at the
server, in a batch and at the command line; what comes after it is answered. By default each field
has a third of the odd values, with EDGESPEC_DEEP=1 all."""

from __future__ import annotations

import copy
import json

import pytest

pytest.importorskip("starlette")
pytest.importorskip("llguidance")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from command import run
from depth import by_turns, one_in
from edgespec.batch.answering import Answering, AnsweringOptions
from edgespec.batch.request_line import read_line
from edgespec.openai.openai_absent import ABSENT, HARMLESS
from edgespec.openai.openai_fields import TEXT_TYPES, TYPES
from edgespec.server.app import application
from serving import CHAT, JSON_TYPE, TEXT

FAST = {"draft": False, "max_new_tokens": 1}
TOOL = {
    "type": "function",
    "function": {
        "name": "now",
        "description": "",
        "parameters": {"type": "object", "properties": {"a": {"type": ["string", "null"]}}},
    },
}
CALL = {"id": "1", "type": "function", "function": {"name": "now", "arguments": "{}"}}
SCHEMA = {"type": "object", "properties": {"a": {"enum": [1]}}, "required": ["a"]}
COMMON = {
    **{"model": "m", "max_tokens": 1, "temperature": 0.5, "top_p": 0.9, "top_k": 3, "seed": 1},
    **{"stop": ["x"], "n": 1, "logit_bias": {"5": 1}, "stream": False, "user": "u"},
    **{"stream_options": {"include_usage": True}},
}
BODIES = [
    (CHAT, {**COMMON, "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}]}),
    (
        CHAT,
        {
            "messages": [
                {"role": "user", "content": "a"},
                {"role": "assistant", "content": None, "tool_calls": [CALL]},
                {"role": "tool", "tool_call_id": "1", "content": "b"},
            ],
            **{"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "now"}}},
            **{"parallel_tool_calls": True, "logprobs": True, "top_logprobs": 2},
        },
    ),
    (TEXT, {**COMMON, "prompt": ["a", "b"], "echo": True, "logprobs": 1, "best_of": 1}),
    (TEXT, {"prompt": [[5, 6]], "response_format": {"type": "json_object"}}),
    (
        TEXT,
        {
            "prompt": "a",
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "s", "schema": SCHEMA, "strict": True},
            },
        },
    ),
    (
        TEXT,
        {
            "prompt": "a",
            "response_format": {
                "type": "grammar",
                "grammar": {"syntax": "regex", "definition": "a+"},
            },
        },
    ),
]
# What tests of types get wrong: unhashable, true as 1, no finite float, no Unicode, far too large.
ODD = [
    *(None, True, False, 0, -1, 1.5, 10**30, 10**400, float("inf"), float("nan"), "", "x"),
    *("\ud800", "\0", "json_schema", [], [[]], [{}], {}, {"": []}, {"type": []}, {"\ud800": {}}),
]
scalars = st.sampled_from(ODD) | st.integers() | st.text(max_size=5) | st.floats()
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "role", "name", "a", "\ud800"]), inner, max_size=3
        )
    ),
    max_leaves=5,
)


def places(value, path=()):
    """The paths to all values in a body."""
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else ()
    for key, part in enumerate(value) if isinstance(value, list) else inner:
        yield from places(part, (*path, key))


def changed(body, path, value):
    body = copy.deepcopy(body)
    part = body
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    return body


PLACES = [(url, body, path) for url, body in BODIES for path in places(body)]
NAMES = sorted({*TYPES, *TEXT_TYPES, *ABSENT, *HARMLESS})


@pytest.fixture(scope="module")
def client(tool_pair):
    served = application({"m": tool_pair}, FAST)
    with TestClient(served, base_url="http://localhost", raise_server_exceptions=False) as client:
        yield client


def check(client, url, body):
    """The server's answer to a body is right in form."""
    answer = client.post(url, content=json.dumps(body), headers=JSON_TYPE)
    assert answer.status_code in (200, 400), (answer.text, body)
    if answer.status_code == 400:
        message = answer.json()["error"]["message"]
        assert 0 < len(message) < 700, body
        assert message.isprintable(), body


@pytest.mark.parametrize(("url", "body"), BODIES, ids=range(len(BODIES)))
def test_the_bodies_are_answered_as_they_are(client, url, body):
    answer = client.post(url, json=body)
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(("url", "body"), BODIES, ids=range(len(BODIES)))
def test_every_odd_value_at_every_place(client, url, body):
    for number, path in enumerate(places(body)):
        for value in by_turns(ODD, number, 6):
            check(client, url, changed(body, path, value))


@one_in(2)
@pytest.mark.parametrize("name", NAMES)
def test_every_odd_value_of_every_field(client, name):
    for number, value in by_turns(list(enumerate(ODD)), NAMES.index(name), 3):
        url, body = BODIES[2 * (number % 2)]
        check(client, url, {**body, name: value})


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(place=st.sampled_from(PLACES), value=values)
def test_any_value_at_any_place(client, place, value):
    url, body, path = place
    check(client, url, changed(body, path, value))


def test_a_batch_outlives_every_line(tool_pair):
    bodies = [
        changed(body, path, ODD[index % len(ODD)])
        for index, (_, body, path) in enumerate(PLACES * 2)
    ]
    lines = [read_line(number, json.dumps(body).encode()) for number, body in enumerate(bodies, 1)]
    answering = Answering(tool_pair, AnsweringOptions("m", 4, {}, FAST))
    answers = {answer["id"]: answer["response"] for answer in answering.answers(lines)}
    assert len(answers) == len(bodies)
    assert {response["status_code"] for response in answers.values()} == {200, 400}


def test_an_error_that_no_check_foresaw_ends_its_line_alone(tool_pair, monkeypatch):
    def fail(*_):
        raise TypeError("unhashable type:\n'list'")

    body = {"prompt": "a", "response_format": {"type": "json_object"}, "max_tokens": 1}
    lines = [read_line(1, json.dumps(body).encode()), read_line(2, b'{"prompt": "a"}')]
    monkeypatch.setattr("edgespec.openai.openai_api.response_grammar", fail)
    answering = Answering(tool_pair, AnsweringOptions("m", 4, {}, FAST))
    responses = [answer["response"] for answer in answering.answers(lines)]
    assert [response["status_code"] for response in responses] == [500, 500]
    assert "(TypeError: unhashable type: 'list')" in responses[0]["body"]["error"]["message"]
    served = application({"m": tool_pair}, FAST)
    with TestClient(served, base_url="http://localhost") as client:
        answer = client.post(TEXT, json=body)
    assert answer.status_code == 500
    assert "(TypeError: unhashable type: 'list')" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "schema", [{"type": [[]]}, {"type": {}}, {"type": "object", "required": [{}]}, [], "a"], ids=str
)
def test_a_schema_of_the_command_line_is_refused_in_a_line(tool_folder, tmp_path, schema):
    file = tmp_path / "schema.json"
    file.write_text(json.dumps(schema))
    error = run("generate", tool_folder, "a", "--json-schema", file, code=2).stderr
    assert len(error.splitlines()) == 1
    assert error.startswith("edgespec: the JSON schema ")
