"""Claim: requests that are answered at once get the texts that they would get alone."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

import edgespec
from edgespec.artifact.chat_format import user_message
from edgespec.device.kernels import installed_kernels
from serving import CHAT, DRAFTED, QUESTION, Served, metrics, sent

pytestmark = pytest.mark.skipif(installed_kernels() is None, reason="needs kernels")

WAYS = [
    {"temperature": 0},
    {"temperature": 0.9, "seed": 4},
    {"temperature": 0, "frequency_penalty": 1.0},
]


@pytest.fixture(scope="module")
def pair(chat_folder) -> edgespec.Pair:
    return edgespec.load(chat_folder, threads=1, target_format="int8")


def request(number):
    """A question and how it is answered."""
    messages = [user_message(QUESTION + "!" * number)]
    return {"messages": messages, "max_tokens": 20 + number, **WAYS[number % len(WAYS)]}


def answered(port, fields, stream):
    connection = sent(port, CHAT, **fields, stream=stream)
    text = connection.getresponse().read().decode()
    connection.close()
    if not stream:
        return json.loads(text)["choices"][0]["message"]["content"]
    parts = [json.loads(part[6:]) for part in text.split("\n\n")[:-2]]
    return "".join(part["choices"][0]["delta"].get("content", "") for part in parts)


def test_concurrent_answers_are_those_of_the_pair_alone(pair):
    """Also beside clients that leave in the middle; afterwards no cache is occupied."""
    requests = [request(number) for number in range(24)]
    expected = [
        pair.generate(
            fields["messages"],
            max_new_tokens=fields["max_tokens"],
            **{n: fields[n] for n in fields if n not in ("messages", "max_tokens")},
            **DRAFTED,
        ).text
        for fields in requests
    ]
    with Served(pair, texts=4, queue=100) as port, ThreadPoolExecutor(12) as pool:
        for number in range(6):
            leaving = sent(port, **request(number), stream=True)
            leaving.close()
        streams = [number % 2 == 0 for number in range(24)]
        found = list(pool.map(answered, [port] * 24, requests, streams))
        assert found == expected
        counts = metrics(port)
        while counts["edgespec_texts_running"]:  # of a client that has just left
            counts = metrics(port)
    assert counts["edgespec_texts_at_once"] == 4
    assert counts["edgespec_texts_waiting"] == 0
    assert counts["edgespec_texts_total"] >= 24
    assert counts["edgespec_target_rows_total"] > counts["edgespec_target_calls_total"]
