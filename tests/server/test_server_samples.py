"""Claim: `n` texts of one request are those of n requests with following seeds; the prompt is read
and counted once."""

from __future__ import annotations

from collections import defaultdict

import pytest

pytest.importorskip("starlette")

from starlette.testclient import TestClient

import edgespec
from edgespec.artifact.chat_format import user_message
from edgespec.device.kernels import installed_kernels
from edgespec.server.app import application
from edgespec.server.limits import Limits
from serving import CHAT, DRAFTED, QUESTION, TEXT, Served, chat, events, metrics, sent

DRAWN = {"temperature": 0.9, "seed": 7, "max_tokens": 12}
N = 5  # more than are made at once


@pytest.fixture(scope="module", params=["shared calls", "one after the other"])
def pair(request, chat_folder) -> edgespec.Pair:
    """fp32 products of ONNX Runtime share no calls."""
    shared = request.param == "shared calls"
    if shared and installed_kernels() is None:
        pytest.skip("needs kernels")
    return edgespec.load(chat_folder, threads=1, target_format="int8" if shared else "fp32")


@pytest.fixture
def client(pair):
    served = application({"small": pair}, DRAFTED, Limits(texts=3))
    with TestClient(served, base_url="http://localhost") as client:
        yield client


@pytest.fixture(scope="module")
def alone(pair):
    """The text of each seed."""
    options = {"temperature": 0.9, "max_new_tokens": 12, **DRAFTED}
    return [
        pair.generate([user_message(QUESTION)], seed=7 + number, **options) for number in range(N)
    ]


def test_whole_texts_are_those_of_following_seeds(client, alone):
    answer = client.post(CHAT, json=chat(**DRAWN, n=N)).json()
    assert [choice["index"] for choice in answer["choices"]] == list(range(N))
    texts = [choice["message"]["content"] for choice in answer["choices"]]
    assert texts == [result.text for result in alone]
    assert len(set(texts)) > 1


def test_the_prompt_is_counted_once_and_all_texts_are(client, alone):
    usage = client.post(CHAT, json=chat(**DRAWN, n=N)).json()["usage"]
    made = sum(len(result.token_ids) for result in alone)
    assert usage["prompt_tokens"] == alone[0].prompt_tokens
    assert usage["completion_tokens"] == made
    assert usage["total_tokens"] == alone[0].prompt_tokens + made


def test_streamed_texts_begin_grow_and_end_by_their_index(client, alone):
    body = chat(**DRAWN, n=N, stream=True, stream_options={"include_usage": True})
    *pieces, counts = events(client.post(CHAT, json=body).text)
    of_text = defaultdict(list)
    for piece in pieces:
        (choice,) = piece["choices"]
        of_text[choice["index"]].append(choice)
    assert sorted(of_text) == list(range(N))
    for number, (first, *middle, last) in of_text.items():
        assert first["delta"] == {"role": "assistant", "content": ""}
        assert "".join(piece["delta"]["content"] for piece in middle) == alone[number].text
        assert {piece["finish_reason"] for piece in (first, *middle)} == {None}
        assert last["finish_reason"] == "length"
    assert len({piece["id"] for piece in (*pieces, counts)}) == 1
    assert counts["usage"]["completion_tokens"] == sum(len(text.token_ids) for text in alone)


def test_completions_have_them_too_with_log_probabilities(client, pair):
    body = {"prompt": "once", "n": 3, "logprobs": 1, **DRAWN}
    whole = client.post(TEXT, json=body).json()["choices"]
    options = {"temperature": 0.9, "max_new_tokens": 12, "chat": False, **DRAFTED}
    expected = [pair.generate("once", seed=7 + number, **options).text for number in range(3)]
    assert [choice["text"] for choice in whole] == expected
    streamed = defaultdict(lambda: ([], []))
    for event in events(client.post(TEXT, json={**body, "stream": True}).text):
        (choice,) = event["choices"]
        tokens, offsets = streamed[choice["index"]]
        if choice["logprobs"] is not None:
            tokens += choice["logprobs"]["tokens"]
            offsets += choice["logprobs"]["text_offset"]
    for choice in whole:
        logprobs = choice["logprobs"]
        assert streamed[choice["index"]] == (logprobs["tokens"], logprobs["text_offset"])


def test_greedy_texts_are_all_the_same(client):
    choices = client.post(CHAT, json=chat(n=2)).json()["choices"]
    assert choices[0]["message"] == choices[1]["message"]


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"n": 200}, "n is 200; give a whole number from 1 to 128"),
        ({"n": 4, "messages": [user_message("long " * 400)]}, "the cache holds"),
        ({"n": 4, "min_p": 2}, "min_p is 2"),
    ],
    ids=str,
)
def test_what_cannot_be_answered_is_one_error_and_no_stream(client, fields, part, streams):
    response = client.post(CHAT, json=chat(**fields, stream=streams))
    assert response.status_code == 400
    assert part in response.json()["error"]["message"]


def test_a_request_for_many_texts_lets_others_have_their_turns(pair):
    """Its texts take their turns one by one, so a later request does not wait for all of them."""
    with Served(pair, texts=1) as port:
        many = sent(port, n=50, max_tokens=30, ignore_eos=True, stream=True)
        response = many.getresponse()
        response.readline()
        other = sent(port, max_tokens=1)
        assert other.getresponse().status == 200
        other.close()
        assert metrics(port)["edgespec_texts_total"] < 50
        many.close()


def test_a_prompt_is_read_once(chat_folder):
    if installed_kernels() is None:
        pytest.skip("needs kernels")
    pair = edgespec.load(chat_folder, threads=1, target_format="int8")
    messages = [user_message(QUESTION * 20)]
    with Served(pair, texts=4) as port:
        asked = sent(port, messages=messages, n=4, max_tokens=2)
        assert asked.getresponse().status == 200
        asked.close()
        rows = metrics(port)["edgespec_target_rows_total"]
    assert len(pair.encode(messages)) < rows < 2 * len(pair.encode(messages))
