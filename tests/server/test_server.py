"""Claim: a program that speaks to OpenAI's servers gets the target's own texts from a pair.

And nothing else: what would change a text and is not known is refused, a text that nobody waits for
any more ends, and requests wait for each other.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import edgespec
from command import EDGESPEC, run

pytest.importorskip("starlette")
openai = pytest.importorskip("openai")

from starlette.testclient import TestClient  # noqa: E402

from edgespec.artifact.chat_format import user_message  # noqa: E402
from edgespec.server.app import application  # noqa: E402
from edgespec.server.limits import Limits  # noqa: E402
from edgespec.server.listening import listening  # noqa: E402
from edgespec.server.openai_fields import NEUTRAL  # noqa: E402
from edgespec.server.run import serve  # noqa: E402

QUESTION = "Hello there, who are you?"
GREEDY = {"temperature": 0, "max_tokens": 30}
DRAWN = {"temperature": 0.9, "top_p": 0.8, "seed": 7, "max_tokens": 30}
DRAFTED = {"draft": "model", "gamma": 3, "rule": None}
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"


@pytest.fixture(scope="module")
def pair(chat_folder) -> edgespec.Pair:
    return edgespec.load(chat_folder, threads=1)


@pytest.fixture
def client(pair):
    with TestClient(application(pair, "small", DRAFTED), base_url="http://localhost") as client:
        yield client


def chat(**fields):
    return {"messages": [user_message(QUESTION)], **GREEDY, **fields}


def own(pair, given=None, **options):
    """What the pair itself says."""
    renamed = {"max_tokens": "max_new_tokens"}
    options = {renamed.get(name, name): value for name, value in options.items()}
    return pair.generate(given or [user_message(QUESTION)], **DRAFTED, **options)


def events(response):
    """What a stream of events says, the end mark taken off."""
    lines = [line for line in response.text.split("\n\n") if line]
    assert all(line.startswith("data: ") for line in lines)
    assert lines.pop() == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines]


# --- texts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [GREEDY, DRAWN], ids=["greedy", "drawn"])
def test_a_chats_answer_is_the_pairs_own(client, pair, options):
    answer = client.post(CHAT, json=chat(**options)).json()
    expected = own(pair, **options)
    (choice,) = answer["choices"]
    assert choice["message"] == {"role": "assistant", "content": expected.text}
    assert choice["finish_reason"] == "length"
    assert (answer["object"], answer["model"]) == ("chat.completion", "small")
    assert answer["usage"] == {
        "prompt_tokens": expected.prompt_tokens,
        "completion_tokens": 30,
        "total_tokens": expected.prompt_tokens + 30,
        "completion_tokens_details": {
            "accepted_prediction_tokens": expected.stats.accepted + expected.stats.committed,
            "rejected_prediction_tokens": expected.stats.drafted
            + expected.stats.candidates
            - expected.stats.accepted
            - expected.stats.committed,
        },
    }
    assert expected.stats.accepted > 0


@pytest.mark.parametrize("options", [GREEDY, DRAWN], ids=["greedy", "drawn"])
@pytest.mark.parametrize("counted", [True, False])
def test_a_streamed_answer_is_the_same_in_pieces(client, options, counted):
    whole = client.post(CHAT, json=chat(**options)).json()
    wanted = {"stream": True, "stream_options": {"include_usage": counted}}
    response = client.post(CHAT, json=chat(**options, **wanted))
    assert response.headers["content-type"].startswith("text/event-stream")
    first, *pieces = events(response)
    usage = pieces.pop() if counted else None
    last = pieces.pop()
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    text = "".join(piece["choices"][0]["delta"]["content"] for piece in pieces)
    assert text == whole["choices"][0]["message"]["content"]
    assert (last["choices"][0]["delta"], last["choices"][0]["finish_reason"]) == ({}, "length")
    assert len({event["id"] for event in (first, *pieces, last)}) == 1
    if counted:
        assert (usage["choices"], usage["usage"]) == ([], whole["usage"])


@pytest.mark.parametrize("given", ["once", ["once"], [5, 6, 7], [[5, 6, 7]]], ids=str)
def test_a_text_or_tokens_are_gone_on_from_without_a_chat_format(client, pair, given):
    plain = given[0] if isinstance(given[0], (str, list)) and given != "once" else given
    answer = client.post(TEXT, json={"prompt": given, **GREEDY}).json()
    assert answer["object"] == "text_completion"
    assert answer["choices"][0]["text"] == own(pair, plain, **GREEDY).text
    pieces = events(client.post(TEXT, json={"prompt": given, **GREEDY, "stream": True}))
    text = "".join(piece["choices"][0]["text"] for piece in pieces)
    assert text == answer["choices"][0]["text"]


def test_a_conversation_goes_on_with_a_system_prompt_in_parts(client, pair):
    earlier = [{"role": "system", "content": "Be brief."}, user_message("Hi")]
    earlier.append({"role": "assistant", "content": own(pair, earlier, **GREEDY).text})
    nothing = {"refusal": None, "annotations": [], "tool_calls": None}
    asked = [
        {"role": "developer", "content": [{"type": "text", "text": "Be "}, text("brief.")]},
        earlier[1],
        {**earlier[2], **nothing},
        {"role": "user", "content": [text(QUESTION)]},
    ]
    answer = client.post(CHAT, json={"messages": asked, **GREEDY}).json()
    expected = own(pair, [*earlier, user_message(QUESTION)], **GREEDY)
    assert answer["choices"][0]["message"]["content"] == expected.text


def text(content):
    return {"type": "text", "text": content}


def test_what_is_not_said_is_as_at_openai(client, pair):
    """Temperature 1, and 16 tokens of a text that is no chat."""
    asked = {"prompt": "once", "seed": 5}
    choice = client.post(TEXT, json=asked).json()["choices"][0]
    assert choice["text"] == own(pair, "once", temperature=1.0, seed=5, max_tokens=16).text
    asked = {"messages": [user_message(QUESTION)], "seed": 5, "max_tokens": 20}
    message = client.post(CHAT, json=asked).json()["choices"][0]["message"]
    assert message["content"] == own(pair, temperature=1.0, seed=5, max_tokens=20).text


def test_a_stop_string_ends_the_text_and_says_so(client, pair):
    whole = own(pair, **GREEDY).text
    end = whole[8:10]
    choice = client.post(CHAT, json=chat(stop=[end])).json()["choices"][0]
    assert choice["finish_reason"] == "stop"
    assert choice["message"]["content"] == whole[: whole.index(end)]


def test_openais_own_client_is_served(pair):
    at = listening("127.0.0.1", 0)
    with served(pair, at) as port:
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none")
        assert [model.id for model in client.models.list()] == ["small"]
        assert client.models.retrieve("small").object == "model"
        with pytest.raises(openai.NotFoundError, match="there is no model 'large' here"):
            client.models.retrieve("large")
        options = {"model": "small", "messages": [user_message(QUESTION)], **GREEDY}
        answer = client.chat.completions.create(**options)
        assert answer.choices[0].message.content == own(pair, **GREEDY).text
        assert answer.usage.completion_tokens_details.accepted_prediction_tokens > 0
        pieces = client.chat.completions.create(**options, stream=True)
        streamed = "".join(piece.choices[0].delta.content or "" for piece in pieces)
        assert streamed == answer.choices[0].message.content
        text = client.completions.create(model="small", prompt="once", **GREEDY)
        assert text.choices[0].text == own(pair, "once", **GREEDY).text
        with pytest.raises(openai.BadRequestError, match="n is 2"):
            client.chat.completions.create(**options, n=2)


# --- refusals ------------------------------------------------------------------------------------


def refused(client, path, status=400, **request):
    response = client.post(path, **request)
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert error["type"] == "invalid_request_error"
    return error["message"]


OTHERWISE = {
    "n": 2,
    "best_of": 3,
    "echo": True,
    "suffix": "x",
    "tools": [{"type": "function"}],
    "functions": [{}],
    "tool_choice": "auto",
    "frequency_penalty": 0.5,
    "presence_penalty": -1,
    "logit_bias": {"5": 1},
    "logprobs": True,
    "top_logprobs": 3,
    "response_format": {"type": "json_object"},
    "modalities": ["audio"],
}


def test_every_field_that_asks_for_more_is_tried():
    assert OTHERWISE.keys() == NEUTRAL.keys()


@pytest.mark.parametrize("name", OTHERWISE)
def test_what_would_change_the_text_and_is_not_known_is_refused(client, name):
    user_message = refused(client, CHAT, json=chat(**{name: OTHERWISE[name]}))
    assert user_message.startswith(f"{name} is {OTHERWISE[name]!r}; only ")
    whole = client.post(CHAT, json=chat()).json()["choices"]
    for nothing in (NEUTRAL[name], None):
        assert client.post(CHAT, json=chat(**{name: nothing})).json()["choices"] == whole


@pytest.mark.parametrize("name", ["repeat_penalty", "grammar", "prompt", "max_new_tokens"])
def test_a_field_that_nobody_knows_is_refused(client, name):
    assert (
        refused(client, CHAT, json=chat(**{name: 1})) == f"{name} is not known here; leave it out"
    )


def test_what_no_text_depends_on_may_be_said(client):
    whole = client.post(CHAT, json=chat()).json()["choices"]
    idle = {"user": "me", "metadata": {"a": "b"}, "store": False, "model": "gpt"}
    assert client.post(CHAT, json=chat(**idle)).json()["choices"] == whole


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(
    ("fields", "user_message"),
    [
        ({"temperature": "hot"}, "temperature is 'hot'"),
        ({"top_p": 2}, "top_p is 2"),
        ({"max_tokens": 0}, "max_tokens is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"stop": [3]}, "stop is [3]"),
        ({"messages": None}, "messages is None"),
        ({"messages": "hello"}, "messages is 'hello'"),
        ({"messages": []}, "the prompt is empty"),
        ({"messages": ["hello"]}, "a message is 'hello'"),
        ({"messages": [{"role": "user"}]}, "message 1 is"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "message 1 is"),
        ({"messages": [{**user_message("a"), "name": "me"}]}, "message 1 is"),
        ({"messages": [{"role": "user", "content": None}]}, "message 1 is"),
        ({"messages": [user_message("a"), user_message("b")]}, "roles are user, user"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "only text"),
        ({"messages": [user_message("long " * 400)]}, "the cache holds"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_request_that_will_not_do_is_one_line_and_no_stream(
    client, fields, user_message, streams
):
    message = refused(client, CHAT, json=chat(**{**fields, "stream": streams}))
    assert user_message in message
    assert "\n" not in message
    assert client.post(CHAT, json=chat()).status_code == 200


@pytest.mark.parametrize("prompt", [None, 5, {}, [], [1.5], [272], ["a", "b"]], ids=str)
def test_a_prompt_that_is_none_is_refused(client, prompt):
    assert refused(client, TEXT, json={"prompt": prompt, **GREEDY})


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b"[" * 99999], ids=len)
def test_what_is_no_json_is_refused(client, body):
    headers = {"content-type": "application/json"}
    assert "the request is" in refused(client, CHAT, content=body, headers=headers)


def test_a_number_that_is_none_is_refused(client):
    """Python's reader takes what JSON has no word for."""
    body = json.dumps(chat(temperature=float("nan")))
    headers = {"content-type": "application/json"}
    assert "temperature is nan" in refused(client, CHAT, content=body, headers=headers)


def test_a_page_in_a_browser_is_kept_out(client, pair):
    """It may send plain text anywhere, and reach this machine by a name of its own."""
    body = json.dumps(chat())
    assert "no JSON" in refused(client, CHAT, content=body, headers={"content-type": "text/plain"})
    assert client.post(CHAT, json=chat(), headers={"host": "evil.example"}).status_code == 400
    everywhere = application(pair, "small", {}, host="0.0.0.0")
    with TestClient(everywhere, base_url="http://my.machine") as open_to_all:
        assert open_to_all.get("/health").json() == {"status": "ok"}


def test_it_listens_at_an_address_of_the_sixth_version_too(pair):
    try:
        at = listening("::1", 0)
    except edgespec.UsageError:
        pytest.skip("this system has no such address")
    with served(pair, at) as port:
        connection = http.client.HTTPConnection("::1", port, timeout=60)
        connection.request("GET", "/health")
        assert connection.getresponse().status == 200
        connection.close()


def test_a_model_that_does_not_chat_goes_on_from_texts_alone(tiny):
    with TestClient(application(tiny, "tiny", {}), base_url="http://localhost") as client:
        assert "chat format" in refused(client, CHAT, json=chat())
        assert client.post(TEXT, json={"prompt": "x", **GREEDY}).status_code == 200


# --- several at once -----------------------------------------------------------------------------


class served:  # noqa: N801
    """A server in its own thread, at a port."""

    def __init__(self, pair, at, **limits):
        self._at = at
        limits = Limits(**limits)
        arguments = (application(pair, "small", DRAFTED, limits), at, limits)
        self._thread = threading.Thread(target=serve, args=arguments, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self._at.getsockname()[1]

    def __exit__(self, *_):
        self._at.close()


def asked(port, **fields):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"content-type": "application/json"}
    connection.request("POST", CHAT, json.dumps(chat(**fields)), headers)
    return connection


def test_requests_wait_for_each_other(pair):
    """Interleaved they would end each other's texts: a pair keeps one."""
    at = listening("127.0.0.1", 0)
    ways = [{"messages": [user_message(QUESTION + "!" * n)], **DRAWN} for n in range(6)]
    expected = [own(pair, way["messages"], **DRAWN).text for way in ways]
    with served(pair, at) as port, ThreadPoolExecutor(6) as pool:

        def answer(way):
            connection = asked(port, **way, stream=ways.index(way) % 2 == 0)
            answer = connection.getresponse().read().decode()
            connection.close()
            if not answer.startswith("data: "):
                return json.loads(answer)["choices"][0]["message"]["content"]
            parts = [json.loads(part[6:]) for part in answer.split("\n\n")[:-2]]
            return "".join(p["choices"][0]["delta"].get("content", "") for p in parts)

        assert list(pool.map(answer, ways)) == expected


@pytest.mark.parametrize("streams", [True, False])
def test_a_text_that_nobody_waits_for_ends(pair, monkeypatch, streams):
    """Its tokens come slowly here, a thousand of them: the next request would wait for minutes."""
    going_on = pair.stream

    def slow(given, **options):
        stream = going_on(given, **options)
        if options["max_new_tokens"] > 500:
            chunks = stream._chunks
            stream._chunks = (time.sleep(0.2) or chunk for chunk in chunks)
        return stream

    monkeypatch.setattr(pair, "stream", slow)
    at = listening("127.0.0.1", 0)
    with served(pair, at) as port:
        left = asked(port, max_tokens=900, ignore_eos=True, stream=streams)
        if streams:
            response = left.getresponse()
            assert response.readline().startswith(b"data: ")
            response.close()
        else:
            time.sleep(1)
        left.close()
        began = time.monotonic()
        next_ = asked(port)
        assert next_.getresponse().status == 200
        next_.close()
        assert time.monotonic() - began < 60


def test_what_goes_wrong_in_the_middle_is_an_event_and_no_end(client, pair, monkeypatch):
    going_on = pair.stream

    def overtaken(given, **options):
        stream = going_on(given, **options)
        chunks = stream._chunks

        def until():
            yield next(chunks)
            next(going_on("another", max_new_tokens=1))
            yield from chunks

        stream._chunks = until()
        return stream

    monkeypatch.setattr(pair, "stream", overtaken)
    lines = client.post(CHAT, json=chat(stream=True)).text.split("\n\n")
    assert "data: [DONE]" not in lines
    assert json.loads(lines[-2].removeprefix("data: "))["error"]["type"] == "server_error"
    response = client.post(CHAT, json=chat())
    assert response.status_code == 500
    assert "another text was begun" in response.json()["error"]["message"]


# --- the command ---------------------------------------------------------------------------------


def test_the_command_serves_until_it_is_interrupted(chat_folder):
    arguments = [EDGESPEC, "serve", chat_folder, "--port", "0", "--threads", "1", "--gamma", "2"]
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True) as process:
        line = process.stderr.readline()
        assert line.startswith("pair at http://127.0.0.1:")
        port = int(line.split("/v1")[0].rpartition(":")[2])
        connection = asked(port)
        assert json.loads(connection.getresponse().read())["model"] == "pair"
        connection.close()
        process.send_signal(signal.SIGINT)
        user_message = process.communicate(timeout=60)[1]
    assert "Traceback" not in user_message
    assert process.returncode == 130


def test_a_port_that_is_taken_is_one_line(chat_folder):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        user_message = run("serve", chat_folder, "--port", port, code=2).stderr
    assert user_message.startswith(f"edgespec: cannot listen at 127.0.0.1 port {port}: ")
    assert len(user_message.splitlines()) == 1
    assert "cannot listen" in run("serve", chat_folder, "--host", "no.such.host.", code=2).stderr


def test_without_its_extra_the_command_says_what_to_install(chat_folder, monkeypatch):
    monkeypatch.delitem(sys.modules, "edgespec.server.app", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    user_message = run("serve", chat_folder, code=1).stderr
    assert "pip install 'edgespec[server]'" in user_message


def test_the_library_itself_needs_no_server():
    code = "import edgespec, edgespec.cli.main, sys; print('starlette' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, env=os.environ)
    assert result.stdout.strip() == b"False"
