"""Claim: an operator sees each request in the log and in /metrics, can tell a server that is ready
from one that lives, and ends it without losing an answer."""

from __future__ import annotations

import json
import logging
import re
import signal
import socket
import subprocess
import threading
import time

import pytest

import edgespec
from command import EDGESPEC, run
from serving import CHAT, DRAFTED, Served, chat, connected, events, metrics, sent

pytest.importorskip("starlette")

from starlette.testclient import TestClient

from edgespec.errors import EdgespecError
from edgespec.openai.openai_errors import openai_error
from edgespec.server.app import application


@pytest.fixture(scope="module")
def pair(chat_folder) -> edgespec.Pair:
    return edgespec.load(chat_folder, threads=1)


@pytest.fixture
def client(pair):
    with TestClient(application({"small": pair}, DRAFTED), base_url="http://localhost") as client:
        yield client


def lines(caplog):
    return [record for record in caplog.records if hasattr(record, "fields")]


# --- the log -------------------------------------------------------------------------------------


@pytest.mark.parametrize("streams", [False, True])
def test_a_request_is_a_line(client, caplog, streams):
    caplog.set_level(logging.INFO)
    usage = client.post(CHAT, json=chat()).json()["usage"]
    client.post(CHAT, json=chat(stream=streams))
    line = lines(caplog)[-1]
    fields = line.fields
    assert re.fullmatch(
        r"POST /v1/chat/completions 200 small: 30 tokens after \d+, first [\d.]+ s, [\d.]+ tokens/s"
        r", accepted \d+ of \d+, [\d.]+ s",
        line.getMessage(),
    )
    assert fields["status"] == 200
    assert fields["outcome"] == "answered"
    assert (fields["prompt_tokens"], fields["tokens"]) == (usage["prompt_tokens"], 30)
    details = usage["completion_tokens_details"]
    assert fields["accepted"] == details["accepted_prediction_tokens"]
    assert fields["drafted"] == sum(details.values())
    assert 0 < fields["first_token_s"] <= fields["seconds"]


def test_a_refusal_and_an_error_are_lines_too(client, pair, monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    client.post(CHAT, json=chat(temperature="hot"))

    def failing(prompt, options):
        raise EdgespecError("the target cannot be run")

    monkeypatch.setattr(pair.text_engine, "stream", failing)
    client.post(CHAT, json=chat())
    refused, failed = lines(caplog)
    assert (refused.fields["status"], refused.fields["outcome"]) == (400, "refused")
    assert (failed.fields["status"], failed.fields["outcome"]) == (500, "failed")
    assert failed.levelno == logging.ERROR


def test_what_watches_the_server_does_not_fill_its_log(client, caplog):
    caplog.set_level(logging.INFO)
    for path in ("/health", "/ready", "/metrics"):
        assert client.get(path).status_code == 200
    assert lines(caplog) == []


@pytest.mark.parametrize("path", ["/a%0A2026-01-01%20POST%20/forged", "/" + "a" * 5000, "/%1b[31m"])
def test_a_path_cannot_forge_a_line_of_the_log(client, caplog, path):
    caplog.set_level(logging.INFO)
    assert client.get(path).status_code == 404
    (line,) = lines(caplog)
    assert line.getMessage().isprintable()
    assert len(line.getMessage()) < 250


# --- what is counted -----------------------------------------------------------------------------


def test_requests_are_counted_by_how_they_ended(pair):
    with Served(pair) as port:
        for fields in ({}, {}, {"temperature": "hot"}):
            connection = sent(port, **fields)
            connection.getresponse().read()
            connection.close()
        connection = connected(port)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        counted = metrics(port)
    assert 'outcome="answered",route="/v1/chat/completions",status="200"} 2.0' in text
    assert 'outcome="refused",route="/v1/chat/completions",status="400"} 1.0' in text
    assert counted["edgespec_first_token_seconds_count"] == 2
    assert counted["edgespec_token_seconds_count"] == 2
    assert counted["edgespec_first_token_seconds_sum"] > 0
    assert counted["edgespec_drafted_tokens_total"] >= counted["edgespec_accepted_tokens_total"] > 0


def test_paths_that_are_not_there_are_counted_as_one(client):
    for number in range(20):
        client.get(f"/nothing/{number}")
    text = client.get("/metrics").text
    assert 'route="other",status="404"} 20.0' in text
    assert "/nothing" not in text


# --- readiness and the end -----------------------------------------------------------------------


def test_a_server_that_stops_lives_and_is_not_ready(pair):
    served = application({"small": pair}, DRAFTED)
    with TestClient(served, base_url="http://localhost") as client:
        assert client.get("/ready").json() == {"status": "ready"}
        served.state.draining.set()
        assert client.get("/health").status_code == 200
        answer = client.get("/ready")
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "1"
        refused = client.post(CHAT, json=chat())
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "service_unavailable"
        counted = client.get("/metrics").text
        assert f'{{outcome="refused",route="{CHAT}",status="503"}}' in counted


def test_a_full_queue_is_not_ready(pair):
    limits = edgespec_limits(texts=1, queue=0)
    served = application({"small": pair}, DRAFTED, limits)
    with TestClient(served, base_url="http://localhost") as client:
        batch = pair_batch(served)
        batch.slots._value = 0  # taken by a text
        assert client.get("/ready").status_code == 503
        assert client.get("/health").status_code == 200


def edgespec_limits(**fields):
    from edgespec.server.limits import Limits

    return Limits(**fields)


def pair_batch(starlette):
    """The batch of the only model."""
    route = next(route for route in starlette.routes if route.path == CHAT)
    return route.app._served.by_name.all[0].batch


@pytest.fixture
def serving(chat_folder, tmp_path):
    """A process of the command; gives it, its port and its log."""
    log = tmp_path / "log.jsonl"

    def started(*options):
        arguments = [EDGESPEC, "serve", chat_folder, "--port", "0", "--threads", "1"]
        arguments += ["--log-format", "json", "--log-file", str(log), *options]
        process = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True)
        return process, _port(process, log), log

    return started


def _port(process, log):
    while process.poll() is None:
        text = log.read_text() if log.exists() else ""
        if found := re.search(r"http://127\.0\.0\.1:(\d+)/v1", text):
            return int(found[1])
    raise AssertionError(process.stderr.read())


def _accepts(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True


def test_sigterm_lets_what_runs_end_and_takes_nothing_else(serving):
    process, port, log = serving("--grace", "120")
    with process:
        running = sent(port, max_tokens=900, ignore_eos=True, stream=True)
        response = running.getresponse()
        first = response.read(64)
        process.send_signal(signal.SIGTERM)
        while _accepts(port):
            pass
        whole = (first + response.read()).decode()
        assert process.wait(60) == 0
        assert process.stderr.read() == ""
    running.close()
    assert events(whole)[-1]["choices"][0]["finish_reason"] == "length"
    records = [json.loads(line) for line in log.read_text().splitlines()]
    request = next(record for record in records if record.get("path") == CHAT)
    assert (request["tokens"], request["outcome"]) == (900, "answered")
    assert any("stopping in 120 s at most" in record["message"] for record in records)


def test_after_the_grace_requests_end_with_an_error(pair, monkeypatch):
    """In the process of the tests: a text without an end."""
    from edgespec.server.http import http_server
    from edgespec.server.http.listening import listening
    from edgespec.server.limits import Limits

    stream, begun = pair.text_engine.stream, threading.Event()

    def endless(prompt, options):
        result = stream(prompt, options)
        chunk = next(result)

        def again():
            begun.set()
            time.sleep(0.01)
            return chunk

        result._chunks = iter(again, None)
        return result

    monkeypatch.setattr(pair.text_engine, "stream", endless)
    servers = []
    made = http_server._Server

    def kept(*arguments):
        servers.append(made(*arguments))
        return servers[0]

    monkeypatch.setattr(http_server, "_Server", kept)
    at = listening("127.0.0.1", 0)
    port = at.getsockname()[1]
    arguments = (application({"small": pair}, DRAFTED), at, Limits(), 0.1)
    thread = threading.Thread(target=http_server.serve, args=arguments, daemon=True)
    thread.start()
    running = sent(port, stream=True)
    response = running.getresponse()
    assert begun.wait(60)
    servers[0].handle_exit(signal.SIGTERM, None)
    text = response.read().decode()
    running.close()
    thread.join(60)
    assert not thread.is_alive()
    assert "the server is stopping" in text.splitlines()[-2]
    assert "[DONE]" not in text


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "request_",
    [b"nonsense\r\n\r\n", b"GET /\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\r\n\r\n"],
)
def test_what_is_no_http_is_answered_with_json(pair, request_):
    with Served(pair) as port, socket.create_connection(("127.0.0.1", port), timeout=60) as raw:
        raw.sendall(request_)
        answer = b"".join(iter(lambda: raw.recv(4096), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"application/json" in head.lower()
    assert json.loads(body)["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("request_", "status", "code", "param"),
    [
        ({"json": chat(temperature="hot")}, 400, "invalid_value", "temperature"),
        ({"json": chat(mirostat=2)}, 400, "unsupported_parameter", "mirostat"),
        ({"json": {"messages": "hi"}}, 400, "invalid_value", "messages"),
        ({"json": {"messages": ["hi"]}}, 400, "invalid_value", "messages"),
        (
            {"json": {"messages": [{"role": "user", "content": "long " * 400}]}},
            400,
            "context_length_exceeded",
            "messages",
        ),
        ({"content": b"{", "headers": {"content-type": "application/json"}}, 400, None, None),
    ],
    ids=str,
)
def test_errors_have_openais_codes(client, request_, status, code, param):
    answer = client.post(CHAT, **request_)
    assert answer.status_code == status
    error = answer.json()["error"]
    assert (error["code"], error["param"]) == (code, param)


@pytest.mark.parametrize("path", ["/v1/embeddings", "/v1/chat/completion", "/nothing"])
def test_a_path_that_is_not_there_is_no_matter_of_the_model(client, path):
    answer = client.post(path, json=chat())
    assert answer.status_code == 404
    assert (answer.json()["error"]["code"], answer.json()["error"]["param"]) == (
        "unknown_url",
        None,
    )


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (401, "invalid_api_key"),
        (404, "model_not_found"),
        (413, "request_too_large"),
        (429, "rate_limit_exceeded"),
        (500, "internal_error"),
        (503, "service_unavailable"),
    ],
)
def test_each_status_has_its_code(status, code):
    assert openai_error(EdgespecError("no"), status)["error"]["code"] == code


def test_an_error_of_the_program_is_json_everywhere(client, monkeypatch):
    from edgespec.server.served_model import ServedModels

    monkeypatch.setattr(ServedModels, "check", lambda self: 1 / 0)
    for answer in (client.post(CHAT, json=chat()), client.get("/ready")):
        assert answer.status_code == 500
        assert "ZeroDivisionError" in answer.json()["error"]["message"]
    answer = client.post("/api/chat", json=chat())
    assert answer.json()["error"].startswith("this request met an error of edgespec itself")


@pytest.mark.parametrize("log", ["/nothing/here/log", "/proc/log"])
def test_a_log_that_cannot_be_written_is_one_line(chat_folder, log):
    error = run("serve", chat_folder, "--log-file", log, code=2).stderr
    assert error.startswith(f"edgespec: the log {log} cannot be written: ")
    assert len(error.splitlines()) == 1


def test_a_log_whose_disk_is_full_is_said_once(capsys):
    from pathlib import Path

    from edgespec.cli.service_log import service_log

    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with service_log("info", as_json=True, file=Path("/dev/full")):
        for _ in range(3):
            logging.getLogger("edgespec.server").info("a request")
    assert capsys.readouterr().err.count("the log /dev/full cannot be written any more") == 1


def test_what_the_event_loop_says_is_in_the_log_and_of_errors_only(tmp_path):
    from edgespec.cli.service_log import service_log

    log = tmp_path / "log"
    with service_log("info", as_json=True, file=log):
        logging.getLogger("asyncio").warning("socket.send() raised exception.")
        logging.getLogger("asyncio").error("Task exception was never retrieved")
    (line,) = log.read_text().splitlines()
    assert json.loads(line)["message"] == "Task exception was never retrieved"


# --- the page ------------------------------------------------------------------------------------


def test_the_page_is_whole_and_asks_this_server_only(client):
    page = client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert re.findall(r"""(?:src|href)=["'](?!data:)""", page.text) == []
    assert "innerHTML" not in page.text  # a model's text is never markup


def test_the_page_needs_no_key_and_its_requests_do(pair):
    served = application({"small": pair}, DRAFTED, api_key="key-1")
    with TestClient(served, base_url="http://localhost") as client:
        assert client.get("/").status_code == 200
        assert client.get("/v1/models").status_code == 401


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("localhost:8080", "http://localhost:8080", 200),
        ("127.0.0.1:8080", "http://127.0.0.1:8080", 200),
        ("[::1]:8080", "http://[::1]:8080", 200),
        ("localhost:8080", "http://localhost:3000", 403),
        ("localhost:8080", "http://127.0.0.1:8080", 403),
    ],
)
def test_the_page_s_own_requests_are_answered(client, host, origin, status):
    headers = {"host": host, "origin": origin}
    assert client.post(CHAT, json=chat(max_tokens=1), headers=headers).status_code == status


def test_a_page_that_gave_this_machine_a_name_is_not_the_server_s_own(pair):
    """DNS rebinding: with --host 0.0.0.0 every host name is accepted, but not as an origin."""
    served = application({"small": pair}, DRAFTED, host="0.0.0.0")
    with TestClient(served, base_url="http://localhost") as client:
        evil = {"host": "evil.example:8080", "origin": "http://evil.example:8080"}
        assert client.post(CHAT, json=chat(), headers=evil).status_code == 403
        own = {"host": "192.168.1.5:8080", "origin": "http://192.168.1.5:8080"}
        assert client.post(CHAT, json=chat(max_tokens=1), headers=own).status_code == 200
