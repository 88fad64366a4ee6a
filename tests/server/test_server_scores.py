"""Claim: completions repeat and score their prompts, several in one request, as programs that
compare models by the scores of given texts ask for them."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("starlette")

from starlette.testclient import TestClient

from edgespec.server.app import application
from serving import CHAT, DRAFTED, QUESTION, TEXT, Served, events

PROMPTS = ["It is open.", "été 😀", "x"]


@pytest.fixture(scope="module")
def client(tool_pair):
    served = application({"small": tool_pair}, DRAFTED)
    with TestClient(served, base_url="http://localhost") as client:
        yield client


def asked(client, **fields):
    answer = client.post(TEXT, json={"temperature": 0, **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()


def scored(pair, prompt, top=1):
    """What the pair says of a prompt, in the order of the answer's fields."""
    scores = pair.score(prompt, top_logprobs=top)
    return scores.logprobs, scores.starts


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("as_ids", [False, True])
def test_no_tokens_and_an_echo_are_the_scores_of_the_prompt(client, tool_pair, prompt, as_ids):
    given = tool_pair.encode(prompt, False) if as_ids else prompt
    answer = asked(client, prompt=given, echo=True, logprobs=1, max_tokens=0)
    (choice,) = answer["choices"]
    logprobs, starts = scored(tool_pair, prompt)
    assert (choice["text"], choice["finish_reason"]) == (prompt, "length")
    assert choice["logprobs"]["token_logprobs"] == logprobs
    assert choice["logprobs"]["text_offset"] == starts
    assert choice["logprobs"]["top_logprobs"][0] is None
    assert all(len(top) == 1 for top in choice["logprobs"]["top_logprobs"][1:])
    assert answer["usage"]["completion_tokens"] == 0
    assert answer["usage"]["prompt_tokens"] == len(logprobs)


def test_the_text_follows_its_prompt_as_it_would_alone(client, tool_pair):
    asked_for = {"prompt": PROMPTS[1], "max_tokens": 7, "logprobs": 2}
    alone = asked(client, **asked_for)["choices"][0]
    echoed = asked(client, **asked_for, echo=True)["choices"][0]
    assert echoed["text"] == PROMPTS[1] + alone["text"]
    logprobs, starts = scored(tool_pair, PROMPTS[1])
    for name, before in (("token_logprobs", logprobs), ("text_offset", starts)):
        after = alone["logprobs"][name]
        moved = [len(PROMPTS[1]) + start for start in after]
        assert echoed["logprobs"][name] == before + (moved if name == "text_offset" else after)


def test_an_echo_without_log_probabilities_is_the_prompt_s_text(client):
    (choice,) = asked(client, prompt="It is", echo=True, max_tokens=0)["choices"]
    assert (choice["text"], choice["logprobs"]) == ("It is", None)
    assert asked(client, prompt="It is", max_tokens=0)["choices"][0]["text"] == ""


def test_several_prompts_are_answered_each_as_if_it_were_alone(client):
    fields = {"max_tokens": 5, "temperature": 1.0, "seed": 7, "logprobs": 1}
    alone = [asked(client, prompt=prompt, n=2, **fields) for prompt in PROMPTS]
    together = asked(client, prompt=PROMPTS, n=2, **fields)
    expected = [choice for answer in alone for choice in answer["choices"]]
    assert [choice["index"] for choice in together["choices"]] == list(range(6))
    assert [{**choice, "index": 0} for choice in together["choices"]] == [
        {**choice, "index": 0} for choice in expected
    ]
    for name in ("prompt_tokens", "completion_tokens"):
        assert together["usage"][name] == sum(answer["usage"][name] for answer in alone)


@pytest.mark.parametrize("max_tokens", [0, 6])
def test_a_stream_of_several_prompts_is_the_whole_answer_in_pieces(client, max_tokens):
    fields = {"prompt": PROMPTS, "max_tokens": max_tokens, "logprobs": 1, "echo": True}
    whole = asked(client, **fields)["choices"]
    streamed = events(client.post(TEXT, json={**fields, "temperature": 0, "stream": True}).text)
    pieces = [event["choices"][0] for event in streamed]
    for choice in whole:
        own = [piece for piece in pieces if piece["index"] == choice["index"]]
        assert "".join(piece["text"] for piece in own) == choice["text"]
        for name, values in choice["logprobs"].items():
            parts = [piece["logprobs"][name] for piece in own if piece["logprobs"]]
            assert [value for part in parts for value in part] == values


def test_a_prompt_that_is_too_long_refuses_the_request(client):
    fields = {"prompt": ["a", "b" * 5000], "max_tokens": 1}
    answer = client.post(TEXT, json=fields)
    assert answer.status_code == 400
    assert "the cache holds" in answer.json()["error"]["message"]
    many = client.post(TEXT, json={"prompt": ["a"] * 1025})
    assert many.json()["error"]["message"] == "prompt has 1025 prompts; the limit is 1024"


def test_openais_client_scores_texts(tool_pair):
    openai = pytest.importorskip("openai")
    with Served(tool_pair) as port:
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none")
        asked_for = {"model": "small", "prompt": PROMPTS, "echo": True, "logprobs": 1}
        answer = client.completions.create(**asked_for, max_tokens=0)
    assert [choice.text for choice in answer.choices] == PROMPTS
    for choice, prompt in zip(answer.choices, PROMPTS, strict=True):
        assert choice.logprobs.token_logprobs == tool_pair.score(prompt).logprobs


# --- characters of several tokens, and stop strings -----------------------------------------------


def lark(text):
    rules = "start: " + json.dumps(text, ensure_ascii=False)
    return {"type": "grammar", "grammar": {"syntax": "lark", "definition": rules}}


def written(client, path, text, **fields):
    pytest.importorskip("llguidance")
    prompt = {"prompt": "x", "logprobs": 1}
    if path == CHAT:
        message = {"role": "user", "content": QUESTION}
        prompt = {"messages": [message], "logprobs": True, "top_logprobs": 1}
    body = {**prompt, "max_tokens": 60, "temperature": 0, "response_format": lark(text), **fields}
    whole = client.post(path, json=body).json()["choices"][0]
    pieces = [
        e["choices"][0] for e in events(client.post(path, json={**body, "stream": True}).text)
    ]
    return whole, [piece["logprobs"] for piece in pieces if piece["logprobs"]]


@pytest.mark.parametrize("text", ["aé😀b", "日本", "e\u0301x", "👩\u200d💻.", "a"])
def test_an_offset_is_where_the_token_s_character_begins(client, text):
    whole, pieces = written(client, TEXT, text)
    assert whole["text"] == text
    *offsets, end = whole["logprobs"]["text_offset"]
    expected = [index for index, c in enumerate(text) for _ in c.encode()]
    assert (offsets, end) == (expected, len(text))
    for name, values in whole["logprobs"].items():
        assert [value for piece in pieces for value in piece[name]] == values


@pytest.mark.parametrize("text", ["aé😀b", "日本"])
def test_the_bytes_of_all_tokens_are_those_of_the_text(client, text):
    whole, pieces = written(client, CHAT, text)
    *content, _ = whole["logprobs"]["content"]
    assert bytes(byte for entry in content for byte in entry["bytes"]) == text.encode()
    assert {entry["token"] for entry in content if len(entry["bytes"]) == 1} >= {
        f"bytes:\\x{byte:02x}" for byte in text.encode() if byte > 127
    }
    assert [entry for piece in pieces for entry in piece["content"]] == whole["logprobs"]["content"]


@pytest.mark.parametrize("path", [CHAT, TEXT])
@pytest.mark.parametrize(
    ("text", "stop", "left"),
    [
        ("one END", "END", "one "),
        ("END", "END", ""),
        ("one ENd", "END", "one ENd"),
        ("é é", " é", "é"),
        ("one two", ["two", "ne"], "o"),
    ],
)
def test_log_probabilities_are_of_the_text_and_not_of_its_stop_string(
    client, path, text, stop, left
):
    whole, pieces = written(client, path, text, stop=stop)
    if path == TEXT:
        tokens, offsets = whole["logprobs"]["tokens"], whole["logprobs"]["text_offset"]
        assert [value for piece in pieces for value in piece["tokens"]] == tokens
        assert whole["text"] == left
        assert all(offset < len(left) for offset in offsets) or text == left
        count = len(tokens)
    else:
        content = whole["logprobs"]["content"]
        assert [entry for piece in pieces for entry in piece["content"]] == content
        assert whole["message"]["content"] == left
        count = len(content)
    assert count == len(left.encode()) + (text == left)  # and the end of text
