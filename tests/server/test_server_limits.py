"""Claim: no client can stop the server: each limit holds, and its error is one line."""

from __future__ import annotations

import asyncio
import contextlib
import json
import select
import signal
import socket
import subprocess
import threading
import time

import pytest

import edgespec
from command import EDGESPEC, run
from depth import one_in
from edgespec.artifact.chat_format import user_message
from edgespec.server import app
from edgespec.server.app import application
from edgespec.server.http.http_server import _TimedConnection
from edgespec.server.limits import Limits, usual_max_body
from edgespec.server.served_model import QueueFullError, ServedModels
from serving import CHAT, DRAFTED, JSON_TYPE, Served, chat, connected, sent


@pytest.fixture(scope="module")
def pair(chat_folder) -> edgespec.Pair:
    return edgespec.load(chat_folder, threads=1)


class Gate:
    """Holds up every text before its first token, until it is opened."""

    def __init__(self, pair, monkeypatch):
        self.reached, self._open = threading.Event(), threading.Event()
        self._pair, self._texts, self._stream = pair, [], pair.text_engine.stream
        monkeypatch.setattr(pair.text_engine, "stream", self._gated)

    def open(self):
        self._open.set()

    def prompts(self):
        """The names among these in the prompts of the texts that began."""
        return [name for text in self._texts for name in ("first", "left", "last") if name in text]

    def _gated(self, prompt, options):
        self._texts.append(self._pair.tokenizer.decode(prompt.tokens))
        self.reached.set()
        assert self._open.wait(60)
        return self._stream(prompt, options)


@pytest.fixture
def gate(pair, monkeypatch):
    gate = Gate(pair, monkeypatch)
    yield gate
    gate.open()


def status_of(connection):
    """The status and the error, if any."""
    response = connection.getresponse()
    body = json.loads(response.read())
    connection.close()
    return response.status, body.get("error", {}).get("message", "")


def healthy(port):
    connection = connected(port)
    connection.timeout = 10
    connection.request("GET", "/health")
    return status_of(connection)[0] == 200


# --- the queue -----------------------------------------------------------------------------------


def test_sixty_waiting_requests_leave_the_server_alive(pair, gate):
    """Waiting requests once filled the 40 threads of a pool, and no request was answered."""
    with Served(pair, queue=100) as port:
        waiting = [sent(port) for _ in range(60)]
        assert gate.reached.wait(60)
        assert healthy(port)
        for connection in waiting:
            connection.close()
        gate.open()
        assert status_of(sent(port)) == (200, "")


def test_a_request_beyond_the_queue_is_refused_at_once(pair, gate):
    with Served(pair, queue=0) as port:
        answered = sent(port)
        assert gate.reached.wait(60)
        refused = sent(port)
        response = refused.getresponse()
        assert response.status == 429
        assert int(response.headers["Retry-After"]) > 0
        error = json.loads(response.read())["error"]
        refused.close()
        assert error["type"] == "server_error"
        assert "--queue" in error["message"]
        gate.open()
        assert status_of(answered) == (200, "")


def test_a_waiting_client_that_leaves_gives_up_its_turn(pair, gate):
    with Served(pair, queue=1) as port:
        first = sent(port, messages=[user_message("first")])
        assert gate.reached.wait(60)
        both = [sent(port, messages=[user_message("left")]) for _ in range(2)]
        (refused,), _, _ = select.select([c.sock for c in both], [], [], 60)
        for connection in both:
            if connection.sock is refused:
                assert status_of(connection)[0] == 429
            else:
                connection.close()
        last = _queued(port, "last")
        gate.open()
        assert status_of(first) == status_of(last) == (200, "")
    assert gate.prompts() == ["first", "last"]


def _queued(port, text):
    """A request that waits: one that is refused is sent again."""
    while True:
        connection = sent(port, messages=[user_message(text)])
        if not select.select([connection.sock], [], [], 0.2)[0]:
            return connection
        assert status_of(connection)[0] == 429


def test_the_pair_is_used_by_one_thread(pair, monkeypatch):
    """Also while several requests are tokenized."""
    threads, stream = set(), pair.text_engine.stream

    def watched(chunks):
        for chunk in chunks:
            threads.add(threading.get_ident())
            yield chunk

    def observed(prompt, options):
        threads.add(threading.get_ident())
        result = stream(prompt, options)
        result._chunks = watched(result._chunks)
        return result

    monkeypatch.setattr(pair.text_engine, "stream", observed)
    with Served(pair) as port:
        assert {status_of(c)[0] for c in [sent(port) for _ in range(6)]} == {200}
    assert len(threads) == 1


async def checked_until_full(model):
    """Until a waiter is in the queue: its prompt may be encoded by another thread before."""
    while True:
        model.check()
        await asyncio.sleep(0.001)


def test_a_cancelled_waiter_leaves_the_queue(pair):
    async def scenario():
        (model,) = ServedModels({"small": pair}, Limits(texts=1, queue=1)).all
        async with (
            model.batch as batch,
            batch.stream("once", max_new_tokens=900, ignore_eos=True) as stream,
        ):
            await anext(stream)
            model.check()
            waiter = asyncio.create_task(batch.generate("twice"))
            with pytest.raises(QueueFullError, match="1 texts are waiting, and the queue holds 1"):
                await checked_until_full(model)
            waiter.cancel()
            await asyncio.wait([waiter])
            model.check()

    asyncio.run(scenario())


def test_tokenizing_a_long_text_lets_other_threads_run(tiny):
    done, ticks = threading.Event(), 0

    def tick():
        nonlocal ticks
        while not done.wait(0.001):
            ticks += 1

    clock = threading.Thread(target=tick)
    clock.start()
    tiny.encode("many words " * 100_000)
    done.set()
    clock.join()
    assert ticks > 20


# --- bodies --------------------------------------------------------------------------------------


def begun(port, *headers):
    """A POST request whose body is yet to be sent."""
    connection = connected(port)
    connection.putrequest("POST", CHAT)
    for name, value in [*JSON_TYPE.items(), *headers]:
        connection.putheader(name, value)
    connection.endheaders()
    return connection


def test_a_body_that_announces_too_much_is_not_read(pair):
    with Served(pair, max_body=1000) as port:
        status, message = status_of(begun(port, ("Content-Length", "1001")))
    assert status == 413
    assert message.startswith("the body has 1001 bytes; the limit is 1000 bytes")


def test_a_body_without_a_length_is_read_up_to_the_limit(pair):
    with Served(pair, max_body=1000) as port:
        connection = begun(port, ("Transfer-Encoding", "chunked"))
        connection.send(b"3e9\r\n" + b" " * 1001 + b"\r\n")  # and no end
        status, message = status_of(connection)
    assert status == 413
    assert message.startswith("the body is larger; the limit is 1000 bytes")


ANSWERED_EARLY = {
    "no such page": ("GET /none", "localhost", b"404"),
    "health": ("GET /health", "localhost", b"200"),
    "another host": ("POST /v1/completions", "evil.example", b"400"),
    "no such method": ("PUT /v1/models", "localhost", b"405"),
    "another type": ("POST /v1/completions", "localhost\r\nSec-Fetch-Site: none", b"400"),
}


BAD_CHUNKS = (b"-1\r\n", b"zz\r\n", b"3\r\nabcdef\r\n")


def test_a_bad_chunk_after_an_early_answer_is_no_traceback(pair, caplog):
    """Each was one in the log, which anybody could fill."""
    with Served(pair) as port:
        for request_line, host, status in ANSWERED_EARLY.values():
            for bad in BAD_CHUNKS:
                head = f"{request_line} HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked"
                answer = answer_before(port, f"{head}\r\n\r\n".encode(), bad)
                assert answer.startswith(b"HTTP/1.1 " + status)
    assert [record for record in caplog.records if record.exc_info] == []


def answer_before(port: int, head: bytes, body: bytes) -> bytes:
    """The beginning of the answer to a request whose body comes after it."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(head)
        answer = connection.recv(100)
        with contextlib.suppress(ConnectionError):  # the server closes, perhaps at once
            connection.sendall(body)
            while connection.recv(1000):
                pass
    return answer


def test_a_body_of_the_limit_is_answered(pair):
    body = json.dumps(chat()).encode()
    with Served(pair, max_body=len(body)) as port:
        for more, status in ((b"", 200), (b" ", 413)):
            connection = connected(port)
            connection.request("POST", CHAT, body + more, JSON_TYPE)
            assert status_of(connection)[0] == status


def test_the_usual_limit_lets_every_prompt_through_that_fits_the_cache():
    text = "\\u00e4" * 4  # a token of four characters, as JSON writes it at its longest
    assert usual_max_body(8192) > 8192 * len(text)
    assert usual_max_body(8192) < 2 * 2**20


def test_a_client_that_leaves_in_its_body_is_no_error(pair):
    """The server's log showed a traceback for each."""
    starlette, answers = application({"small": pair}, DRAFTED, Limits()), []
    headers = [(name.encode(), value.encode()) for name, value in JSON_TYPE.items()]
    scope = {"type": "http", "method": "POST", "path": CHAT, "query_string": b"", "root_path": ""}
    messages = [{"type": "http.request", "body": b"{", "more_body": True}]

    async def receive():
        return messages.pop() if messages else {"type": "http.disconnect"}

    async def send(message):
        answers.append(message)

    headers.append((b"host", b"localhost"))
    asyncio.run(starlette({**scope, "headers": headers}, receive, send))
    assert answers[0]["status"] == 499


# --- time ----------------------------------------------------------------------------------------


def test_a_body_that_does_not_arrive_is_given_up(pair):
    with Served(pair, timeout=0.2) as port:
        connection = begun(port, ("Content-Length", "100"))
        connection.send(b"{")
        status, message = status_of(connection)
    assert status == 408
    assert message.startswith("the body did not arrive within 0.2 s")


def test_an_answer_is_sent_at_once_and_waits_for_no_acknowledgement(pair, monkeypatch):
    """A mutant: with Nagle's algorithm the body follows 40 ms after its header."""
    without_delay = []

    def made(self, transport):
        connection_made(self, transport)
        accepted = transport.get_extra_info("socket")
        without_delay.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    connection_made = _TimedConnection.connection_made
    monkeypatch.setattr(_TimedConnection, "connection_made", made)
    with Served(pair) as port:
        connection = sent(port)
        assert connection.getresponse().status == 200
        connection.close()
    assert without_delay
    assert all(without_delay)


@pytest.mark.parametrize("beginning", [b"", b"GET /hea"], ids=["none", "half"])
@pytest.mark.parametrize("earlier", [False, True], ids=["first", "second"])
def test_a_connection_without_a_request_is_closed(pair, beginning, earlier):
    with (
        Served(pair, timeout=0.2) as port,
        socket.create_connection(("127.0.0.1", port), timeout=60) as client,
    ):
        if earlier:
            client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert client.recv(4096).startswith(b"HTTP/1.1 200 ")
        client.sendall(beginning)
        with contextlib.suppress(ConnectionResetError):  # closed before all was read
            while client.recv(4096):
                pass


@pytest.fixture
def narrow(monkeypatch, tmp_path):
    """A long page, and connections that hold little of it; gives a client of a port."""
    page = tmp_path / "page.html"
    page.write_bytes(b"p" * 99_999 + b"!")
    monkeypatch.setattr(app, "PAGE", page)

    def made(self, transport):
        connection_made(self, transport)
        transport.set_write_buffer_limits(0)
        accepted = transport.get_extra_info("socket")
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)

    connection_made = _TimedConnection.connection_made
    monkeypatch.setattr(_TimedConnection, "connection_made", made)

    def client(port):
        asking = socket.socket()
        asking.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        asking.settimeout(60)
        asking.connect(("127.0.0.1", port))
        asking.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return asking

    return client


def received(asking, pause):
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := asking.recv(2048):
            parts.append(part)
            time.sleep(pause)
    return b"".join(parts)


def test_a_client_that_accepts_nothing_counts_as_gone(pair, narrow, monkeypatch):
    """Such a client would hold the pair for as long as it likes."""
    lost, closed = threading.Event(), _TimedConnection.connection_lost
    monkeypatch.setattr(
        _TimedConnection, "connection_lost", lambda self, error: (closed(self, error), lost.set())
    )
    with Served(pair, timeout=0.1) as port, narrow(port) as asking:
        assert lost.wait(60)
        assert not received(asking, 0).endswith(b"!")


def test_a_client_that_is_slow_gets_its_whole_answer(pair, narrow):
    """The whole takes longer than the limit, which holds for each part."""
    with Served(pair, timeout=0.3) as port, narrow(port) as asking:
        assert received(asking, 0.01).endswith(b"!")


# --- the command ---------------------------------------------------------------------------------


@one_in(2, turn=1)
@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_ends_requests_in_flight(chat_folder, times):
    arguments = [EDGESPEC, "serve", chat_folder, "--port", "0", "--threads", "1", "--no-draft"]
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True) as process:
        port = int(process.stderr.readline().split("/v1")[0].rpartition(":")[2])
        streamed = sent(port, max_tokens=900, ignore_eos=True, stream=True)
        response = streamed.getresponse()
        assert response.readline().startswith(b"data: ")
        waiting = [sent(port, max_tokens=900, ignore_eos=True) for _ in range(3)]
        unfinished = begun(port, ("Content-Length", "100"))
        unfinished.send(b"{")
        for _ in range(times):
            process.send_signal(signal.SIGINT)
        error = process.communicate(timeout=60)[1]
        for connection in (streamed, unfinished, *waiting):
            connection.close()
    *requests, empty, last = error.splitlines()
    assert (empty, last) == ("", "edgespec: interrupted")
    logged = "POST /v1/chat/completions "
    assert [line for line in requests if not line.startswith(logged)] == []
    assert process.returncode == 130


def test_a_request_in_flight_is_told_that_the_server_stops(pair, gate):
    starlette = application({"small": pair}, DRAFTED, Limits())

    async def scenario():
        await asyncio.to_thread(gate.reached.wait)
        starlette.state.stopping.set()

    async def requested():
        answers = []
        body = json.dumps(chat()).encode()
        messages = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive():
            return messages.pop() if messages else await asyncio.Event().wait()

        async def send(message):
            answers.append(message)

        headers = [(b"content-type", b"application/json"), (b"host", b"localhost")]
        scope = {"type": "http", "method": "POST", "path": CHAT, "query_string": b""}
        await asyncio.gather(starlette({**scope, "headers": headers}, receive, send), scenario())
        return answers

    answers = asyncio.run(requested())
    assert answers[0]["status"] == 503
    assert b"the server is stopping" in answers[1]["body"]


@pytest.mark.parametrize(
    ("host", "line"),
    [
        ("", "the host is empty; give an address such as 127.0.0.1, or 0.0.0.0 to listen at every"),
        ("\udcff", "argument 4 is '\\udcff', which is not UTF-8 text"),
        ("a" * 5000, "the host is 'aaaa"),
        ("a\nb", "cannot listen at 'a\\nb' port "),
    ],
    ids=["empty", "byte FF", "long", "two lines"],
)
def test_an_impossible_host_is_one_line(chat_folder, host, line):
    error = run("serve", chat_folder, "--host", host, code=2).stderr
    assert error.startswith(f"edgespec: {line}")
    assert len(error.splitlines()) == 1
    assert len(error) < 200


# --- long reading --------------------------------------------------------------------------------

# llguidance needs minutes for this: it intersects all these patterns.
SLOW = {"allOf": [{"type": "string", "pattern": f"a{{1,{i}}}b*"} for i in range(1, 60)]}


def test_a_request_that_takes_long_to_read_holds_up_nothing_and_no_interruption(chat_folder):
    form = {"type": "json_schema", "json_schema": {"name": "slow", "schema": SLOW}}
    arguments = [EDGESPEC, "serve", chat_folder, "--port", "0", "--threads", "1", "--no-draft"]
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True) as process:
        port = int(process.stderr.readline().split("/v1")[0].rpartition(":")[2])
        slow = sent(port, response_format=form)
        assert status_of(sent(port)) == (200, "")
        assert healthy(port)
        process.send_signal(signal.SIGINT)
        error = process.communicate(timeout=60)[1]
        slow.close()
    assert error.splitlines()[-1] == "edgespec: interrupted"
    assert "Traceback" not in error
    assert process.returncode == 130


def test_a_conversation_of_many_messages_is_compared_once_with_each_token(pair):
    """Each special token was compared with every message."""
    turns = [{"role": r, "content": "a"} for _ in range(400) for r in ("user", "assistant")]
    messages = [*turns, user_message("a")]
    looked = []

    class Contents(list):
        def __getitem__(self, index):
            looked.append(index)
            return super().__getitem__(index)

        def __iter__(self):
            for index in range(len(self)):
                yield self[index]

    encoder = pair.text_engine.encoder
    chat = encoder.chat(messages)
    encoder._encode_chat(chat._replace(contents=Contents(chat.contents)))
    assert len(looked) < 10 * len(messages)
