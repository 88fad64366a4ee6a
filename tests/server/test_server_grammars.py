"""Claim: OpenAI's `response_format`, `tools` and `tool_choice` give answers that fit them, whole
and streamed, to the client that people use."""

from __future__ import annotations

import json
import re

import pytest

import edgespec
from edgespec.artifact.chat_format import user_message
from serving import CHAT, DRAFTED, QUESTION, TEXT, Served

pytest.importorskip("llguidance")
pytest.importorskip("starlette")
jsonschema = pytest.importorskip("jsonschema")
openai = pytest.importorskip("openai")

from starlette.testclient import TestClient  # noqa: E402

from edgespec.server.app import application  # noqa: E402

CITY = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 5}, "size": {"enum": [1, 2, 3]}},
    "required": ["city", "size"],
    "additionalProperties": False,
}
TOOLS = [
    {"type": "function", "function": {"name": "weather", "parameters": CITY}},
    {"type": "function", "function": {"name": "now", "description": "The time."}},
]
WEATHER = {"type": "function", "function": {"name": "weather"}}
MESSAGES = [user_message(QUESTION)]
OPTIONS = [{"temperature": 0}, {"temperature": 1.2, "seed": 6}]


@pytest.fixture(scope="module")
def client(tool_pair):
    with Served(tool_pair) as port:
        yield openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0)


def asked(client, **fields):
    options = {"model": "small", "messages": MESSAGES, "max_tokens": 300, "temperature": 0}
    return client.chat.completions.create(**{**options, **fields})


def schema_format(schema, **others):
    return {"type": "json_schema", "json_schema": {"name": "s", "schema": schema, **others}}


# --- response_format ------------------------------------------------------------------------------


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_an_answer_fits_its_schema_and_is_plain_decoding_s(client, tool_pair, options):
    form = schema_format(CITY, strict=True)
    (choice,) = asked(client, response_format=form, **options).choices
    jsonschema.validate(json.loads(choice.message.content), CITY)
    assert choice.finish_reason == "stop"
    plain = tool_pair.generate(
        MESSAGES, draft=False, grammar=edgespec.json_schema(CITY), max_new_tokens=300, **options
    )
    assert choice.message.content == plain.text
    stream = asked(client, response_format=form, stream=True, **options)
    assert "".join(event.choices[0].delta.content or "" for event in stream) == plain.text


def test_other_formats_are_grammars_too(client):
    def answer(**response_format):
        choice = asked(client, response_format=response_format, max_tokens=40).choices[0]
        return choice.message.content

    free = asked(client, max_tokens=40).choices[0].message.content
    assert answer(type="text") == free
    assert answer(type="json_object").startswith("{")
    regex = {"syntax": "regex", "definition": "[a-f]{4}-[0-9]{2}"}
    assert re.fullmatch("[a-f]{4}-[0-9]{2}", answer(type="grammar", grammar=regex))
    lark = {"syntax": "lark", "definition": 'start: "yes" | "no"'}
    assert answer(type="grammar", grammar=lark) in ("yes", "no")


def test_a_completion_has_a_grammar_as_well(client):
    grammar = {"syntax": "regex", "definition": "[0-9]{6}"}
    body = {"response_format": {"type": "grammar", "grammar": grammar}}
    text = client.completions.create(model="small", prompt="a", extra_body=body).choices[0].text
    assert re.fullmatch("[0-9]{6}", text)


@pytest.mark.parametrize(
    ("response_format", "reason"),
    [
        ({"type": "xml"}, "give an object with the type 'text', 'json_object'"),
        ({"type": "json_object", "schema": 3}, "schema is 3"),
        ({"type": "json_schema"}, "response_format is"),
        ({"type": "json_schema", "json_schema": {"name": "a"}}, "schema is None"),
        (schema_format({"uniqueItems": True}), "uniqueItems at #, which no grammar"),
        (schema_format({"$ref": "#"}), "a value that contains itself"),
        ({"type": "grammar", "grammar": {"syntax": "gbnf", "definition": "a"}}, "give a syntax"),
        ({"type": "grammar", "grammar": {"syntax": "regex", "definition": "(a"}}, "unclosed group"),
        (
            {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: start"}},
            "no text",
        ),
    ],
    ids=lambda value: str(value)[:50],
)
def test_a_format_that_cannot_be_used_is_a_bad_request(tool_pair, response_format, reason):
    with TestClient(
        application({"small": tool_pair}, DRAFTED), base_url="http://localhost"
    ) as client:
        for path, prompt in ((CHAT, {"messages": MESSAGES}), (TEXT, {"prompt": "a"})):
            answer = client.post(path, json={**prompt, "response_format": response_format})
            assert answer.status_code == 400
            assert reason in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("pattern", "fields", "reason"),
    [
        ("(.*){10}" * 50, {"logit_bias": {"70": 30}}, "the regular expression is too large: after"),
        ("[a-z]{3}", {"min_tokens": 9}, "after 3 tokens, the grammar and the other options"),
    ],
)
def test_a_grammar_that_a_text_cannot_follow_is_a_bad_request(tool_pair, pattern, fields, reason):
    format_ = {"type": "grammar", "grammar": {"syntax": "regex", "definition": pattern}}
    with TestClient(
        application({"small": tool_pair}, DRAFTED), base_url="http://localhost"
    ) as client:
        for path, prompt in ((CHAT, {"messages": MESSAGES}), (TEXT, {"prompt": "a"})):
            body = {**prompt, **fields, "response_format": format_, "max_tokens": 40}
            answer = client.post(path, json={**body, "temperature": 0})
            assert answer.status_code == 400
            assert reason in answer.json()["error"]["message"]
            assert "\n" not in answer.json()["error"]["message"]


# --- tools ----------------------------------------------------------------------------------------


def streamed(events):
    """A message and the finish reason, put together from a stream's events."""
    content, calls, reason = "", [], None
    for event in events:
        choice = event.choices[0]
        content += choice.delta.content or ""
        reason = choice.finish_reason or reason
        for piece in choice.delta.tool_calls or []:
            if piece.id is not None:
                assert (piece.type, piece.index) == ("function", len(calls))
                calls.append([piece.function.name, ""])
            calls[piece.index][1] += piece.function.arguments
    return content, calls, reason


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("choice", ["required", WEATHER], ids=str)
def test_a_call_is_in_the_answer_whole_and_streamed(client, tool_pair, options, choice):
    fields = {"tools": TOOLS[:1], "tool_choice": choice, "parallel_tool_calls": False, **options}
    (whole,) = asked(client, **fields).choices
    assert whole.finish_reason == "tool_calls"
    assert whole.message.content is None
    (call,) = whole.message.tool_calls
    assert (call.type, call.function.name) == ("function", "weather")
    assert re.fullmatch("call_[0-9a-f]{24}", call.id)
    jsonschema.validate(json.loads(call.function.arguments), CITY)
    content, calls, reason = streamed(asked(client, stream=True, **fields))
    assert (content, reason) == ("", "tool_calls")
    assert calls == [["weather", call.function.arguments]]
    plain = tool_pair.generate(
        MESSAGES,
        draft=False,
        max_new_tokens=300,
        tools=TOOLS[:1],
        tool_choice=choice,
        parallel_tool_calls=False,
        **options,
    )
    assert plain.text == (
        f'<call>\n{{"name": "weather", "arguments": {call.function.arguments}}}\n</call>'
    )


def test_an_answer_that_may_call_may_be_a_text(client, tool_pair):
    fields = {"tools": TOOLS, "max_tokens": 40, "temperature": 1, "seed": 1}
    (whole,) = asked(client, **fields).choices
    assert whole.message.tool_calls is None
    options = {"temperature": 1, "seed": 1, "max_new_tokens": 40}
    text = tool_pair.generate(MESSAGES, tools=TOOLS, **options).text
    assert whole.message.content == text
    content, calls, reason = streamed(asked(client, stream=True, **fields))
    assert (content, calls, reason) == (text, [], "length")


def test_a_conversation_goes_on_after_a_call(client, tool_pair):
    call = {"id": "c1", "type": "function", "function": {"name": "now", "arguments": "{}"}}
    messages = [
        *MESSAGES,
        {"role": "assistant", "content": None, "tool_calls": [call], "refusal": None},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "12:30"}]},
    ]
    answer = asked(client, messages=messages, tools=TOOLS, tool_choice="none", max_tokens=20)
    own = [
        MESSAGES[0],
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "12:30"},
    ]
    assert "12:30" in tool_pair.text_engine.encoder.chat(own).text
    assert answer.choices[0].message.content == tool_pair.generate(own, max_new_tokens=20).text


def test_no_tool_is_shown_where_none_may_be_called(client, tool_pair):
    answer = asked(client, tools=TOOLS, tool_choice="none", max_tokens=20)
    assert answer.choices[0].message.content == tool_pair.generate(MESSAGES, max_new_tokens=20).text
    assert answer.usage.prompt_tokens == len(tool_pair.encode(MESSAGES))
    assert asked(client, tools=TOOLS, max_tokens=1).usage.prompt_tokens > answer.usage.prompt_tokens


def test_each_of_several_texts_has_its_own_calls(client):
    choices = asked(client, tools=TOOLS, tool_choice="required", n=2).choices
    first, second = ([call.function for call in choice.message.tool_calls] for choice in choices)
    assert first == second
    assert first


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"tools": TOOLS, "tool_choice": "some"}, "tool_choice is 'some'"),
        ({"tool_choice": "required"}, "tool_choice is 'required'"),
        ({"tools": [{"type": "custom"}]}, "a tool is"),
        ({"tools": TOOLS, "response_format": {"type": "json_object"}}, "both tools and a grammar"),
        ({"tools": TOOLS, "n": 129}, "n is 129"),
        ({"functions": [{"name": "now"}]}, "functions is"),
    ],
    ids=str,
)
def test_tools_that_cannot_be_used_are_a_bad_request(client, fields, reason):
    with pytest.raises(openai.BadRequestError, match=re.escape(reason)):
        asked(client, **fields)


@pytest.mark.parametrize("syntax", ["lark", "regex"])
def test_a_grammar_that_would_end_the_process_is_a_bad_request(client, syntax):
    rules = "".join(f"r{i}: r{i + 1}\n" for i in range(6_000))
    definitions = {"lark": f'start: r0\n{rules}r6000: "a"\n', "regex": "(" * 6_000 + ")" * 6_000}
    form = {"syntax": syntax, "definition": definitions[syntax]}
    with pytest.raises(openai.BadRequestError, match=r"flatten it|cannot be used"):
        asked(client, response_format={"type": "grammar", "grammar": form})
    assert asked(client, max_tokens=2).choices[0].finish_reason == "length"


def test_a_model_that_knows_no_tools_is_a_bad_request(chat_folder):
    pair = edgespec.load(chat_folder, threads=1)
    body = {"messages": MESSAGES, "tools": TOOLS}
    with TestClient(application({"small": pair}, DRAFTED), base_url="http://localhost") as client:
        answer = client.post(CHAT, json=body)
        assert answer.status_code == 400
        assert "chat template knows no tools" in answer.json()["error"]["message"]


def test_tools_come_with_messages(tool_pair):
    for prompt in ("hello", [1, 2]):
        with pytest.raises(edgespec.UsageError, match="tools come with messages"):
            tool_pair.stream(prompt, tools=TOOLS)


def test_a_batch_takes_the_same_fields(tool_folder, tmp_path):
    from command import run

    shared = {"messages": MESSAGES, "temperature": 0, "max_tokens": 300}
    lines = [
        {**shared, "response_format": schema_format(CITY)},
        {**shared, "tools": TOOLS[:1], "tool_choice": WEATHER},
    ]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    run("batch", tool_folder, tmp_path / "in.jsonl", "-o", tmp_path / "out.jsonl", "--threads", "1")
    answers = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    schema, call = (a["response"]["body"]["choices"][0]["message"] for a in answers)
    jsonschema.validate(json.loads(schema["content"]), CITY)
    (called,) = call["tool_calls"]
    jsonschema.validate(json.loads(called["function"]["arguments"]), CITY)


def test_the_command_line_takes_grammars(tool_folder, tmp_path):
    from command import run

    (tmp_path / "schema.json").write_text(json.dumps(CITY))
    (tmp_path / "rules.lark").write_text('start: "yes" | "no"')

    def text(*options):
        shared = ("generate", tool_folder, "Hello", "--greedy", "--threads", "1")
        return run(*shared, *options).stdout.strip()

    jsonschema.validate(json.loads(text("--json-schema", tmp_path / "schema.json")), CITY)
    assert text("--lark", tmp_path / "rules.lark") in ("yes", "no")
    assert re.fullmatch("[0-9]{3}", text("--regex", "[0-9]{3}"))
