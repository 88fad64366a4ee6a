"""Claim: requests leave nothing behind: as many objects live after many as after few."""

from __future__ import annotations

import gc
import json
import threading
from collections import Counter

import pytest

import edgespec

pytest.importorskip("starlette")

from edgespec.artifact.chat_format import user_message
from edgespec.pair.concurrent import daemon_threads
from edgespec.server import served
from serving import CHAT, JSON_TYPE, QUESTION, TEXT, Served, connected

ASKED = {"messages": [user_message(QUESTION)]}
REQUESTS = {
    CHAT: {**ASKED, "max_tokens": 5},
    TEXT: {"prompt": QUESTION, "max_tokens": 5},
    "/v1/responses": {"input": QUESTION, "max_output_tokens": 5},
    "/v1/messages": {**ASKED, "max_tokens": 5},
    "/api/chat": {**ASKED, "options": {"num_predict": 5}},
    "/api/generate": {"prompt": QUESTION, "options": {"num_predict": 5}},
}
ROUNDS = 8  # a few objects come and go


@pytest.fixture(scope="module")
def pair(chat_folder) -> edgespec.Pair:
    return edgespec.load(chat_folder, threads=1)


def asked(port, path, fields):
    """Reads an answer; returns its status."""
    connection = connected(port)
    connection.request("POST", path, json.dumps(fields), JSON_TYPE)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status


def ask_in_every_way(port):
    """Each interface whole, streamed, refused and left in the middle."""
    for path, fields in REQUESTS.items():
        for streams in (False, True):
            assert asked(port, path, {**fields, "stream": streams}) == 200
        assert asked(port, path, {**fields, "stream": 3}) == 400
        leaving = connected(port)
        leaving.request("POST", path, json.dumps({**fields, "stream": True}), JSON_TYPE)
        leaving.close()


def alive():
    """Objects by type, when the last requests have ended: twice in a row the same."""
    before: Counter[str] = Counter()
    for _ in range(20):
        gc.collect()
        now = Counter(str(type(thing)) for thing in gc.get_objects())
        if now == before:
            break
        before = now
        threading.Event().wait(0.05)
    return now


def test_requests_of_every_interface_leave_no_objects(pair, monkeypatch):
    """A leak of one object in all requests of a round would be seen."""
    monkeypatch.setattr(served, "READERS", 1)
    monkeypatch.setattr(daemon_threads, "KEPT_S", 600.0)  # threads do not come and go
    with Served(pair) as port:
        ask_in_every_way(port)  # caches fill
        before = alive()
        for _ in range(ROUNDS):
            ask_in_every_way(port)
        more = alive() - before
    assert {kind: count for kind, count in more.items() if count >= ROUNDS} == {}
