"""Claim: OpenAI's client gets the target's own texts, thinking and calls as Responses, whole and
streamed."""

from __future__ import annotations

import json

import pytest

from edgespec.artifact.chat_format import user_message
from serving import GREEDY, QUESTION, Served, thinking_pair

openai = pytest.importorskip("openai")
pytest.importorskip("llguidance")
jsonschema = pytest.importorskip("jsonschema")

CITY = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 5}}}
CITY |= {"required": ["city"], "additionalProperties": False}
TOOL = {"type": "function", "name": "weather", "parameters": CITY, "strict": True}
SHORT = {"model": "small", "temperature": 0, "max_output_tokens": 30}


def client_of(port):
    return openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0)


@pytest.fixture(scope="module")
def client(tool_pair):
    with Served(tool_pair) as port, client_of(port) as client:
        yield client


def own(pair, messages, **options):
    return pair.generate(messages, max_new_tokens=30, draft=False, **options)


def test_a_response_is_the_text_of_the_pair(client, tool_pair):
    response = client.responses.create(input=QUESTION, **SHORT)
    expected = own(tool_pair, [user_message(QUESTION)])
    assert response.output_text == expected.text
    assert (response.status, response.incomplete_details.reason) == (
        "incomplete",
        "max_output_tokens",
    )
    assert (response.usage.input_tokens, response.usage.output_tokens) == (
        expected.prompt_tokens,
        30,
    )
    assert response.max_output_tokens == 30


def test_a_stream_has_the_same_in_pieces(client):
    whole = client.responses.create(input=QUESTION, **SHORT)
    with client.responses.stream(input=QUESTION, **SHORT) as stream:
        events = list(stream)
    assert [event.sequence_number for event in events] == list(range(len(events)))
    pieces = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(pieces) == whole.output_text
    assert len(pieces) > 1
    assert [event.type for event in events[:4]] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert events[-1].type == "response.incomplete"
    assert events[-1].response.output_text == whole.output_text


def test_a_text_that_ends_is_complete(client):
    text = {"format": {"type": "json_schema", "name": "city", "schema": CITY}}
    fields = {**SHORT, "max_output_tokens": 200}
    response = client.responses.create(input=QUESTION, text=text, **fields)
    assert response.status == "completed"
    jsonschema.validate(json.loads(response.output_text), CITY)


def test_a_conversation_with_instructions_goes_on(client, tool_pair):
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Yo"}],
        },
        {"role": "user", "content": QUESTION},
    ]
    response = client.responses.create(input=items, instructions="Be brief.", **SHORT)
    messages = [
        {"role": "system", "content": "Be brief."},
        user_message("Hi"),
        {"role": "assistant", "content": "Yo"},
        user_message(QUESTION),
    ]
    assert response.output_text == own(tool_pair, messages).text


def test_a_function_is_called_and_its_result_sent_back(client, tool_pair):
    fields = {**SHORT, "max_output_tokens": 300, "tools": [TOOL], "tool_choice": "required"}
    response = client.responses.create(input=QUESTION, parallel_tool_calls=False, **fields)
    (call,) = response.output
    assert (call.type, call.name, response.status) == ("function_call", "weather", "completed")
    jsonschema.validate(json.loads(call.arguments), CITY)
    with client.responses.stream(input=QUESTION, parallel_tool_calls=False, **fields) as stream:
        events = list(stream)
        (streamed,) = stream.get_final_response().output
    assert (streamed.name, streamed.arguments) == (call.name, call.arguments)
    deltas = [e.delta for e in events if e.type == "response.function_call_arguments.delta"]
    assert "".join(deltas) == call.arguments
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "12 degrees"}
    items = [user_message(QUESTION), call, result]
    after = client.responses.create(input=items, **SHORT)
    function = {"name": "weather", "arguments": call.arguments}
    messages = [
        user_message(QUESTION),
        {"role": "assistant", "content": "", "tool_calls": [{"function": function}]},
        {"role": "tool", "content": "12 degrees"},
    ]
    assert after.output_text == own(tool_pair, messages).text


def test_thinking_is_an_item_of_its_own(tool_pair):
    pair = thinking_pair(tool_pair)
    with Served(pair) as port, client_of(port) as client:
        response = client.responses.create(input=QUESTION, **SHORT)
        assert [item.type for item in response.output] == ["reasoning"]
        expected = own(pair, [user_message(QUESTION)]).text
        assert response.output[0].content[0].text == expected.strip()
        with client.responses.stream(input=QUESTION, **SHORT) as stream:
            pieces = [e.delta for e in stream if e.type == "response.reasoning_text.delta"]
        assert "".join(pieces) == expected.strip()
        chat = client.chat.completions.create(
            model="small",
            messages=[user_message(QUESTION)],
            extra_body={"thinking_budget": 4},
            **GREEDY,
        )
        limited = own(pair, [user_message(QUESTION)], thinking_budget=4).text
        thought, _, rest = limited.partition("</think>")
        message = chat.choices[0].message
        assert message.reasoning_content == thought.strip()
        assert message.content == rest.lstrip()
        streamed = client.chat.completions.create(
            model="small",
            messages=[user_message(QUESTION)],
            extra_body={"thinking_budget": 4},
            stream=True,
            **GREEDY,
        )
        deltas = [event.choices[0].delta for event in streamed]
        assert "".join(getattr(d, "reasoning_content", "") or "" for d in deltas) == thought.strip()
        assert "".join(delta.content or "" for delta in deltas) == rest.lstrip()
        joined = client.chat.completions.create(
            model="small",
            messages=[user_message(QUESTION)],
            extra_body={"thinking_budget": 4, "separate_reasoning": False},
            **GREEDY,
        )
        assert joined.choices[0].message.content == limited


@pytest.mark.parametrize(
    ("fields", "reason", "param"),
    [
        ({"previous_response_id": "resp_1"}, "send the whole conversation", "previous_response_id"),
        ({"background": True}, "background is True, which is not there", "background"),
        ({"input": []}, r"input is \[\]; give", "input"),
        ({"input": [{"type": "item_reference", "id": "a"}]}, "input 1 is", "input"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "only text", None),
        ({"tools": [{"type": "web_search"}]}, "a tool is", "tools"),
        ({"text": {"format": {"type": "xml"}}}, "text.format is", "text"),
        ({"reasoning": {"effort": 3}}, "reasoning.effort is 3", "reasoning"),
        ({"max_output_tokens": 0}, "max_output_tokens is 0", "max_output_tokens"),
    ],
    ids=str,
)
def test_what_is_not_there_is_refused(client, fields, reason, param):
    with pytest.raises(openai.BadRequestError, match=reason) as caught:
        client.responses.create(**{"input": QUESTION, **SHORT, **fields})
    assert caught.value.type == "invalid_request_error"
    assert caught.value.param == param
