"""A server in a thread of its own, and requests to it, as tests need them."""

from __future__ import annotations

import http.client
import json
import re
import threading
from dataclasses import replace

import pytest

pytest.importorskip("starlette")

import edgespec
from chat_templates import BEGINS_THINKING
from edgespec.artifact.chat_format import user_message
from edgespec.chat.chat_template import ChatTemplate
from edgespec.server.app import application
from edgespec.server.http.http_server import serve
from edgespec.server.http.listening import listening
from edgespec.server.limits import Limits

QUESTION = "Hello there, who are you?"
GREEDY = {"temperature": 0, "max_tokens": 30}
DRAFTED = {"draft": "model", "gamma": 3, "rule": None}
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
JSON_TYPE = {"content-type": "application/json"}


def chat(**fields):
    """The body of a chat request."""
    return {"messages": [user_message(QUESTION)], **GREEDY, **fields}


def thinking_pair(pair):
    """The same models with a chat template that begins thinking."""
    parts = replace(pair.parts, template=ChatTemplate(BEGINS_THINKING))
    return edgespec.Pair(parts, pair.drafting)


class Served:
    """A server, from `with` to its end; gives the port.

    Args:
        limits: fields of `Limits`.
    """

    def __init__(self, pair, host="127.0.0.1", api_key=None, **limits):
        self._at = listening(host, 0)
        arguments = (
            application({"small": pair}, DRAFTED, Limits(**limits), api_key=api_key),
            self._at,
            Limits(**limits),
        )
        self._thread = threading.Thread(target=serve, args=arguments, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self._at.getsockname()[1]

    def __exit__(self, *_):
        self._at.close()


def connected(port, host="127.0.0.1"):
    return http.client.HTTPConnection(host, port, timeout=60)


def sent(port, path=CHAT, **fields):
    """A connection with a chat request that is sent, and whose answer is not yet read."""
    connection = connected(port)
    connection.request("POST", path, json.dumps(chat(**fields)), JSON_TYPE)
    return connection


def metrics(port, model="small"):
    """What /metrics says of a model."""
    connection = connected(port)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    values = re.findall(rf'^(\w+){{model="{model}"}} (\S+)$', text, re.M)
    return {name: float(value) for name, value in values}


def events(text):
    """The objects of a stream of events, without the end mark."""
    lines = [line for line in text.split("\n\n") if line]
    assert all(line.startswith("data: ") for line in lines)
    assert lines.pop() == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines]
