"""Claim: the server reports the pair's log-probabilities, in OpenAI's two forms."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("starlette")
from starlette.testclient import TestClient

from edgespec.artifact.chat_format import user_message
from edgespec.openai.openai_logprobs import TokenTexts
from edgespec.server.app import application
from serving import CHAT, DRAFTED, QUESTION, TEXT

LENGTH = 12
ASKED = {"temperature": 0, "max_tokens": LENGTH}
MESSAGES = [user_message(QUESTION)]


@pytest.fixture(scope="module")
def chat_pair(chat_folder):
    import edgespec

    return edgespec.load(chat_folder, threads=1)


@pytest.fixture(scope="module")
def client(chat_pair):
    served = application({"small": chat_pair}, DRAFTED)
    with TestClient(served, base_url="http://localhost") as client:
        yield client


def own(chat_pair, prompt, top):
    """Plain decoding's text with its log-probabilities."""
    options = {"logprobs": True, "top_logprobs": top, "draft": False, "chat": False}
    return chat_pair.generate(prompt, max_new_tokens=LENGTH, **options)


def choice_of(client, path, **fields):
    (choice,) = client.post(path, json={**ASKED, **fields}).json()["choices"]
    return choice


def events_of(client, path, **fields):
    lines = client.post(path, json={**ASKED, **fields, "stream": True}).text.splitlines()
    events = [line.removeprefix("data: ") for line in lines if line.startswith("data: {")]
    return [choice for event in events for choice in json.loads(event)["choices"]]


@pytest.mark.parametrize("top", [0, 1, 3, 20])
def test_a_chat_s_tokens_have_the_pair_s_log_probabilities(client, chat_pair, top):
    expected = own(chat_pair, MESSAGES, top)
    texts = TokenTexts(chat_pair.tokenizer)
    choice = choice_of(client, CHAT, messages=MESSAGES, logprobs=True, top_logprobs=top)
    content = choice["logprobs"]["content"]
    assert [entry["logprob"] for entry in content] == expected.logprobs
    assert [entry["token"] for entry in content] == [texts.of(t).text for t in expected.token_ids]
    for entry, others in zip(content, expected.top_logprobs, strict=True):
        assert len(others) == top
        assert [(o["token"], o["logprob"]) for o in entry["top_logprobs"]] == [
            (texts.of(token).text, logprob) for token, logprob in others
        ]
        if top:  # greedy: the token is the most probable one
            assert others[0][1] == entry["logprob"]
        assert entry["bytes"] == list(entry["token"].encode())


def test_a_stream_has_those_of_the_whole_answer(client):
    asked = {"messages": MESSAGES, "logprobs": True, "top_logprobs": 2}
    whole = choice_of(client, CHAT, **asked)
    pieces = events_of(client, CHAT, **asked)
    reported = [piece["logprobs"] for piece in pieces if piece["logprobs"]]
    streamed = [entry for logprobs in reported for entry in logprobs["content"]]
    assert streamed == whole["logprobs"]["content"]
    text = "".join(piece["delta"].get("content", "") for piece in pieces)
    assert text == whole["message"]["content"]


def test_a_completion_has_them_in_its_own_form(client, chat_pair):
    expected = own(chat_pair, "hello", 2)
    texts = TokenTexts(chat_pair.tokenizer)
    words = [texts.of(token).text for token in expected.token_ids]
    logprobs = choice_of(client, TEXT, prompt="hello", logprobs=2)["logprobs"]
    assert logprobs["tokens"] == words
    assert logprobs["token_logprobs"] == expected.logprobs
    assert logprobs["text_offset"] == [len("".join(words[:n])) for n in range(len(words))]
    assert logprobs["top_logprobs"] == [
        {texts.of(token).text: logprob for token, logprob in others}
        for others in expected.top_logprobs
    ]


def test_a_completion_s_stream_goes_on_with_its_offsets(client):
    whole = choice_of(client, TEXT, prompt="hello", logprobs=1)["logprobs"]
    pieces = [p["logprobs"] for p in events_of(client, TEXT, prompt="hello", logprobs=1)]
    for name, values in whole.items():
        assert [value for piece in pieces if piece for value in piece[name]] == values


@pytest.mark.parametrize(
    ("path", "asked"), [(CHAT, {"messages": MESSAGES}), (TEXT, {"prompt": "a"})]
)
def test_they_come_only_when_asked_for(client, path, asked):
    assert choice_of(client, path, **asked)["logprobs"] is None
    assert all(event["logprobs"] is None for event in events_of(client, path, **asked))


@pytest.mark.parametrize("value", [True, 6, -1, "x"])
def test_a_completion_s_number_out_of_range_is_refused(client, value):
    answer = client.post(TEXT, json={"prompt": "a", "logprobs": value})
    assert answer.status_code == 400
    assert "give a whole number from 0 to 5" in answer.json()["error"]["message"]


def test_a_token_s_text_has_its_space(pair):
    """SentencePiece drops the space of a text's first token."""
    ids = pair.encode("The file is open")
    texts = TokenTexts(pair.tokenizer)
    joined = "".join(texts.of(token).text for token in ids[:-1])  # the last one ends the prompt
    assert joined.strip() == "The file is open"
