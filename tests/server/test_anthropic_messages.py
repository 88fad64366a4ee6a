"""Claim: Anthropic's client gets the target's own texts, thinking and calls as Messages, whole and
streamed."""

from __future__ import annotations

import pytest

from edgespec.artifact.chat_format import user_message
from serving import QUESTION, Served, thinking_pair

anthropic = pytest.importorskip("anthropic")
pytest.importorskip("llguidance")
jsonschema = pytest.importorskip("jsonschema")

CITY = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 5}}}
CITY |= {"required": ["city"], "additionalProperties": False}
TOOL = {"name": "weather", "description": "The weather.", "input_schema": CITY}
ASKED = [user_message(QUESTION)]
# The client sends what its types do not have (temperature, in newer versions) as extra fields.
SHORT = {"model": "small", "max_tokens": 30, "extra_body": {"temperature": 0}}


def client_of(port, api_key="none"):
    url = f"http://127.0.0.1:{port}"
    return anthropic.Anthropic(base_url=url, api_key=api_key, max_retries=0)


@pytest.fixture(scope="module")
def client(tool_pair):
    with Served(tool_pair) as port, client_of(port) as client:
        yield client


def own(pair, messages, **options):
    return pair.generate(messages, **{"max_new_tokens": 30, "draft": False, **options})


def test_a_message_is_the_text_of_the_pair(client, tool_pair):
    message = client.messages.create(messages=ASKED, **SHORT)
    expected = own(tool_pair, ASKED)
    (block,) = message.content
    assert (block.type, block.text) == ("text", expected.text)
    assert (message.role, message.model, message.stop_reason) == (
        "assistant",
        "small",
        "max_tokens",
    )
    assert message.usage.input_tokens == expected.prompt_tokens
    assert message.usage.output_tokens == 30


def test_a_stream_has_the_same_in_pieces(client):
    whole = client.messages.create(messages=ASKED, **SHORT)
    with client.messages.stream(messages=ASKED, **SHORT) as stream:
        pieces = list(stream.text_stream)
        last = stream.get_final_message()
    assert len(pieces) > 1
    assert "".join(pieces) == whole.content[0].text == last.content[0].text
    assert (last.stop_reason, last.usage.output_tokens) == ("max_tokens", 30)


def test_a_conversation_with_a_system_prompt_in_blocks_goes_on(client, tool_pair):
    cached = {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Yo"}]},
        user_message(QUESTION),
    ]
    message = client.messages.create(messages=messages, system=[cached], **SHORT)
    plain = [
        {"role": "system", "content": "Be brief."},
        user_message("Hi"),
        {"role": "assistant", "content": "Yo"},
        user_message(QUESTION),
    ]
    assert message.content[0].text == own(tool_pair, plain).text


def test_a_stop_sequence_ends_the_text(client, tool_pair):
    whole = own(tool_pair, ASKED).text
    end = whole[8:10]
    message = client.messages.create(messages=ASKED, stop_sequences=[end], **SHORT)
    assert message.content[0].text == whole[: whole.index(end)]
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", end)


@pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "weather"}], ids=str)
def test_a_tool_is_used_and_its_result_sent_back(client, tool_pair, choice):
    fields = {**SHORT, "max_tokens": 300, "tools": [TOOL]}
    fields["tool_choice"] = {**choice, "disable_parallel_tool_use": True}
    message = client.messages.create(messages=ASKED, **fields)
    (use,) = message.content
    assert (use.type, use.name, message.stop_reason) == ("tool_use", "weather", "tool_use")
    jsonschema.validate(use.input, CITY)
    with client.messages.stream(messages=ASKED, **fields) as stream:
        (streamed,) = stream.get_final_message().content
    assert (streamed.name, streamed.input) == ("weather", use.input)
    result = {"type": "tool_result", "tool_use_id": use.id, "content": "12 degrees"}
    messages = [
        *ASKED,
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [result, {"type": "text", "text": "So?"}]},
    ]
    after = client.messages.create(messages=messages, **SHORT)
    function = {"name": "weather", "arguments": use.input}
    plain = [
        *ASKED,
        {"role": "assistant", "content": "", "tool_calls": [{"function": function}]},
        {"role": "tool", "content": "12 degrees"},
        user_message("So?"),
    ]
    assert after.content[0].text == own(tool_pair, plain).text


def test_thinking_is_a_block_with_a_budget(tool_pair):
    pair = thinking_pair(tool_pair)
    with Served(pair) as port, client_of(port) as client:
        thinking = {"type": "enabled", "budget_tokens": 5}
        message = client.messages.create(messages=ASKED, thinking=thinking, **SHORT)
        limited = own(pair, ASKED, thinking_budget=5).text
        thought, _, rest = limited.partition("</think>")
        assert [block.type for block in message.content] == ["thinking", "text"]
        assert message.content[0].thinking == thought.strip()
        assert message.content[1].text == rest.lstrip()
        with client.messages.stream(messages=ASKED, thinking=thinking, **SHORT) as stream:
            streamed = stream.get_final_message()
        assert [block.type for block in streamed.content] == ["thinking", "text"]
        assert streamed.content[0].thinking == thought.strip()
        assert streamed.content[1].text == rest.lstrip()


def test_tokens_are_counted_and_models_listed(client, tool_pair):
    count = client.messages.count_tokens(model="small", messages=ASKED)
    assert count.input_tokens == len(tool_pair.encode(ASKED))
    assert [model.id for model in client.models.list()] == ["small"]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"messages": []}, "messages is"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image"}]}]},
            "1 has the block",
        ),
        ({"messages": [{"role": "robot", "content": "a"}]}, "message 1 is"),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "a tool is"),
        ({"tools": [TOOL], "tool_choice": {"type": "tool"}}, "tool_choice is"),
        ({"thinking": {"type": "sometimes"}}, "thinking is"),
        ({"max_tokens": 0}, "max_tokens is 0"),
    ],
    ids=str,
)
def test_what_is_not_there_is_refused_in_anthropics_form(client, fields, reason):
    with pytest.raises(anthropic.BadRequestError, match=reason) as caught:
        client.messages.create(**{"messages": ASKED, **SHORT, **fields})
    assert caught.value.body["type"] == "error"
    assert caught.value.body["error"]["type"] == "invalid_request_error"


def test_a_key_is_sent_as_anthropics_clients_do(tool_pair):
    with Served(tool_pair, api_key="key-1") as port:
        with client_of(port, "key-1") as right:
            assert right.messages.create(messages=ASKED, **SHORT).content
        with client_of(port, "key-2") as wrong, pytest.raises(anthropic.AuthenticationError) as no:
            wrong.messages.create(messages=ASKED, **SHORT)
        assert no.value.body["error"]["type"] == "authentication_error"
