"""Claim: Ollama's client gets the target's own texts, thinking and calls, whole and streamed."""

from __future__ import annotations

import json
import time

import pytest

from edgespec.artifact.chat_format import user_message
from serving import QUESTION, Served, thinking_pair

ollama = pytest.importorskip("ollama")
pytest.importorskip("llguidance")
jsonschema = pytest.importorskip("jsonschema")

CITY = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 5}}}
CITY |= {"required": ["city"], "additionalProperties": False}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": CITY}}
ASKED = [user_message(QUESTION)]
SHORT = {"temperature": 0, "num_predict": 30}


@pytest.fixture(scope="module")
def client(tool_pair):
    with Served(tool_pair) as port, ollama.Client(host=f"http://127.0.0.1:{port}") as client:
        yield client


def own(pair, messages, **options):
    return pair.generate(messages, **{"max_new_tokens": 30, "draft": False, **options})


def test_a_chat_is_the_text_of_the_pair_whole_and_streamed(client, tool_pair):
    answer = client.chat(model="small", messages=ASKED, options=SHORT)
    expected = own(tool_pair, ASKED)
    assert answer.message.content == expected.text
    assert (answer.done, answer.done_reason) == (True, "length")
    assert (answer.prompt_eval_count, answer.eval_count) == (expected.prompt_tokens, 30)
    pieces = list(client.chat(model="small:latest", messages=ASKED, options=SHORT, stream=True))
    assert len(pieces) > 2
    assert "".join(piece.message.content for piece in pieces) == expected.text
    assert [piece.done for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    assert pieces[-1].eval_count == 30


@pytest.mark.parametrize("streams", [False, True])
def test_durations_are_parts_of_the_whole_in_nanoseconds(client, streams):
    """As Ollama's documentation names them: in all, loading, the prompt, the answer."""
    begun = time.perf_counter_ns()
    answer = client.chat(model="small", messages=ASKED, options=SHORT, stream=streams)
    answer = list(answer)[-1] if streams else answer
    waited = time.perf_counter_ns() - begun
    assert min(answer.prompt_eval_duration, answer.eval_duration) > 0
    assert answer.load_duration == 0  # models are loaded before the server is ready
    parts = answer.load_duration + answer.prompt_eval_duration + answer.eval_duration
    assert parts <= answer.total_duration <= waited


def test_a_text_is_an_answer_unless_it_is_raw(client, tool_pair):
    answer = client.generate(model="small", prompt=QUESTION, system="Be brief.", options=SHORT)
    messages = [{"role": "system", "content": "Be brief."}, *ASKED]
    assert answer.response == own(tool_pair, messages).text
    raw = client.generate(model="small", prompt="once", raw=True, options=SHORT)
    assert raw.response == own(tool_pair, "once", chat=False).text
    pieces = client.generate(model="small", prompt="once", raw=True, options=SHORT, stream=True)
    assert "".join(piece.response for piece in pieces) == raw.response


def test_a_request_for_no_text_finds_the_model_loaded(client):
    """Ollama's own command asks so before it asks for a text."""
    chat, text = client.chat(model="small", messages=[]), client.generate(model="small")
    assert (chat.done, chat.done_reason, chat.message.content) == (True, "load", "")
    assert (text.done, text.done_reason, text.response) == (True, "load", "")
    assert [part.done_reason for part in client.generate(model="small", stream=True)] == ["load"]


def test_options_are_those_of_the_pair(client, tool_pair):
    options = {"temperature": 0.8, "top_k": 9, "seed": 4, "repeat_penalty": 1.2, "num_predict": 30}
    answer = client.chat(model="small", messages=ASKED, options={**options, "num_ctx": 99})
    named = {"temperature": 0.8, "top_k": 9, "seed": 4, "repetition_penalty": 1.2}
    assert answer.message.content == own(tool_pair, ASKED, **named).text
    whole = own(tool_pair, ASKED).text
    stopped = client.chat(model="small", messages=ASKED, options={**SHORT, "stop": [whole[8:10]]})
    assert stopped.message.content == whole[: whole.index(whole[8:10])]
    assert stopped.done_reason == "stop"


def test_an_answer_fits_its_format(client):
    options = {"temperature": 0, "num_predict": 200}
    answer = client.chat(model="small", messages=ASKED, format=CITY, options=options)
    jsonschema.validate(json.loads(answer.message.content), CITY)
    answer = client.generate(model="small", prompt=QUESTION, format="json", options=SHORT)
    assert answer.response.startswith("{")


def test_a_tool_is_called_and_its_result_sent_back(client, tool_pair):
    """The API has no tool_choice; whether noise calls a tool is chance, so it continues a call."""
    call = {"function": {"name": "weather", "arguments": {"city": "Ulm"}}}
    messages = [
        *ASKED,
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_name": "weather", "content": "12 degrees"},
    ]
    answer = client.chat(model="small", messages=messages, tools=[TOOL], options=SHORT)
    sent = ollama.Tool(**TOOL).model_dump(exclude_none=True)  # it drops what its types do not have
    expected = own(tool_pair, messages, tools=[sent])
    assert answer.message.content == expected.text
    assert answer.prompt_eval_count == expected.prompt_tokens


def test_a_call_is_one_piece_of_the_answer(tool_pair):
    from edgespec.ollama.ollama_answer import OllamaAnswer
    from edgespec.pair.generation import Chunk
    from edgespec.tools.answer_reader import AnswerForm

    result = tool_pair.generate(
        ASKED, tools=[TOOL], tool_choice="required", max_new_tokens=300, parallel_tool_calls=False
    )
    answers = [OllamaAnswer("small", AnswerForm(tool_pair.tool_use.form), True) for _ in range(2)]
    (call,) = answers[0].whole([result])["message"]["tool_calls"]
    assert call["function"]["name"] == "weather"
    jsonschema.validate(call["function"]["arguments"], CITY)
    answers[1].begin(0, result)
    events = [event for c in result.text for event in answers[1].piece(0, Chunk(1, c))]
    events += answers[1].end(0, result)
    messages = [event.data["message"] for event in events]
    assert [call for said in messages for call in said.get("tool_calls", [])] == [call]


def test_thinking_has_a_field_of_its_own(tool_pair):
    pair = thinking_pair(tool_pair)
    with Served(pair) as port, ollama.Client(host=f"http://127.0.0.1:{port}") as client:
        answer = client.chat(model="small", messages=ASKED, think=True, options=SHORT)
        expected = own(pair, ASKED).text.strip()
        assert (answer.message.thinking, answer.message.content) == (expected, "")
        pieces = client.chat(model="small", messages=ASKED, think=True, options=SHORT, stream=True)
        assert "".join(piece.message.thinking or "" for piece in pieces) == expected
        assert "thinking" in client.show("small").capabilities


def test_models_are_listed_and_described(client, tool_pair):
    (model,) = client.list().models
    assert (model.model, model.details.format) == ("small", "onnx")
    assert model.size > 0
    shown = client.show("small")
    assert shown.details.family == "llama"
    assert "tools" in shown.capabilities
    assert shown.template == tool_pair.parts.template.template
    assert shown.modelinfo["llama.context_length"] == 2048
    assert [model.model for model in client.ps().models] == ["small"]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"options": {"mirostat": 1}}, "mirostat is 1, which is not there"),
        ({"options": {"typical_p": 0.5}}, "typical_p is 0.5, which is not there"),
        ({"options": {"temperature": "hot"}}, "temperature is 'hot'"),
        ({"format": "xml"}, "format is 'xml'"),
        ({"messages": [{"role": "user", "content": "a", "images": ["aGk="]}]}, "images is"),
        ({"tools": [{"type": "function"}]}, "a tool is"),
        ({"stream": "yes"}, "stream is 'yes'"),
    ],
    ids=str,
)
def test_what_is_not_there_is_refused_in_ollamas_form(client, fields, reason):
    body = {"model": "small", "messages": ASKED, **fields}
    answer = client._client.post("/api/chat", json=body)
    assert answer.status_code == 400
    assert answer.json().keys() == {"error"}
    assert reason in answer.json()["error"]


def test_what_a_server_of_pairs_cannot_do_is_not_there(client):
    with pytest.raises(ollama.ResponseError, match="POST /api/pull is not there"):
        client.pull("llama3")
