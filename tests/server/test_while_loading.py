"""Claim: a server answers from the first moment: while its pairs are loaded it lives and is not
ready, and no client is cut off when they are."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading

import pytest

import edgespec
from serving import DRAFTED, connected

pytest.importorskip("starlette")

from click.testing import CliRunner

from edgespec.cli.ending import ending_at_sigterm
from edgespec.cli.main import main
from edgespec.cli.parameters.loading_options import Loading
from edgespec.errors import EdgespecError
from edgespec.server.app import application
from edgespec.server.http.http_server import serve
from edgespec.server.http.listening import listening
from edgespec.server.http.while_loading import answering_while_loading


def asked(port, path, method="GET"):
    """Status and object of an answer."""
    connection = connected(port)
    connection.request(method, path, headers={"host": "anything"})
    answer = connection.getresponse()
    assert answer.getheader("connection") == "close"
    again = answer.getheader("retry-after")
    found = answer.status, json.loads(answer.read()), again
    connection.close()
    return found


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as at:
        return at.getsockname()[1]


def test_a_server_that_loads_lives_and_is_not_ready(chat_folder, monkeypatch, tmp_path):
    port, seen, log = free_port(), {}, tmp_path / "log.jsonl"

    def loading(self, plainly=False):
        seen["health"] = asked(port, "/health")
        seen["ready"] = asked(port, "/ready")
        for path in ("/v1/chat/completions", "/v1/messages", "/api/chat"):
            seen[path] = asked(port, path, "POST")
        raise EdgespecError("this pair cannot be loaded")

    monkeypatch.setattr(Loading, "pair", loading)
    arguments = ["serve", str(chat_folder), "--port", str(port)]
    logged = ["--log-format", "json", "--log-file", str(log)]
    ended = CliRunner().invoke(main, [*arguments, *logged])
    assert ended.stderr == "edgespec: this pair cannot be loaded\n"
    assert seen.pop("health") == (200, {"status": "ok"}, None)
    said = "the models are being loaded; ask again in a moment"
    assert [(status, again) for status, _, again in seen.values()] == [(503, "1")] * 4
    assert seen["ready"][1]["error"]["code"] == "service_unavailable"
    assert seen["/v1/messages"][1]["error"] == {"type": "overloaded_error", "message": said}
    assert seen["/api/chat"][1] == {"error": said}
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(line["path"], line["status"], line["outcome"], line["level"]) for line in lines] == [
        (path, 503, "refused", "info") for path in seen if path.startswith("/")
    ]
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port))


def test_nobody_is_cut_off_when_the_pairs_are_loaded(chat_folder):
    """Clients connect all the time, some before and some after, and each has an answer."""
    at = listening("127.0.0.1", 0)
    port = at.getsockname()[1]
    statuses, errors, ready = [], [], threading.Event()

    def ask():
        while not ready.is_set():
            connection = connected(port)
            try:
                connection.request("GET", "/ready")
                statuses.append(connection.getresponse().status)
            except OSError as error:
                errors.append(error)
            connection.close()
            if statuses and statuses[-1] == 200:
                ready.set()

    clients = [threading.Thread(target=ask) for _ in range(3)]
    with answering_while_loading(at):
        early = connected(port)
        early.connect()  # and asks when the pairs are loaded
        for client in clients:
            client.start()
        served = application({"small": edgespec.load(chat_folder, threads=1)}, DRAFTED)
        early.request("GET", "/ready")
    threading.Thread(target=serve, args=(served, at), daemon=True).start()
    for client in clients:
        client.join(60)
    assert early.getresponse().status == 503
    early.close()
    assert ready.is_set()
    assert errors == []
    assert set(statuses) == {503, 200}


def test_sigterm_ends_what_is_begun_in_order():
    before, tidied = signal.getsignal(signal.SIGTERM), []

    def loads():
        with ending_at_sigterm():
            try:
                os.kill(os.getpid(), signal.SIGTERM)
                threading.Event().wait(60)
            finally:
                tidied.append("what it had begun")

    with pytest.raises(SystemExit) as ended:
        loads()
    assert ended.value.code == 0
    assert tidied == ["what it had begun"]
    assert signal.getsignal(signal.SIGTERM) is before
