"""Claim: one server has several models, each with its own texts, and the field `model` chooses."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

openai = pytest.importorskip("openai")

from starlette.testclient import TestClient  # noqa: E402

import edgespec  # noqa: E402
from command import EDGESPEC, run  # noqa: E402
from edgespec.server.app import application  # noqa: E402
from serving import TEXT, connected, metrics  # noqa: E402

GREEDY = {"prompt": "once", "temperature": 0, "max_tokens": 8}


@pytest.fixture(scope="module")
def pairs(chat_folder, tiny_folder) -> dict[str, edgespec.Pair]:
    return {
        "chat": edgespec.load(chat_folder, threads=1),
        "tiny": edgespec.load(tiny_folder, threads=1),
    }


@pytest.fixture
def client(pairs):
    with TestClient(application(pairs, {}), base_url="http://localhost") as client:
        yield client


def test_all_models_are_listed(client):
    assert [model["id"] for model in client.get("/v1/models").json()["data"]] == ["chat", "tiny"]
    assert client.get("/v1/models/tiny").json()["id"] == "tiny"


def test_each_request_is_answered_by_the_model_that_it_names(client, pairs):
    texts = {}
    for name, pair in pairs.items():
        answer = client.post(TEXT, json={"model": name, **GREEDY}).json()
        assert answer["model"] == name
        texts[name] = answer["choices"][0]["text"]
        assert texts[name] == pair.generate("once", chat=False, max_new_tokens=8).text
    assert texts["chat"] != texts["tiny"]


def test_an_unknown_model_is_openais_404(client):
    response = client.post(TEXT, json={"model": "gpt-9", **GREEDY})
    assert response.status_code == 404
    assert response.json()["error"] == {
        "message": "The model `gpt-9` does not exist here; give one of: chat, tiny",
        "type": "invalid_request_error",
        "param": "model",
        "code": "model_not_found",
    }
    assert client.get("/v1/models/gpt-9").json() == response.json()


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/v1/embeddings", 404),
        ("POST", "/v1/responses/resp_1/cancel", 404),
        ("POST", "/v1", 404),
        ("GET", "/index.html", 404),
        ("GET", "/" + "x" * 9000, 404),
    ],
)
def test_what_is_not_here_is_openais_error_that_says_what_is(client, method, path, status):
    response = client.request(method, path, json={"input": "x"})
    assert response.status_code == status
    error = response.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert error["message"].startswith(f"{method} {path}"[:50])
    assert "/v1/chat/completions" in error["message"]
    assert len(error["message"]) < 300


@pytest.mark.parametrize(
    ("method", "path", "takes"),
    [
        ("GET", TEXT, ["POST"]),
        ("DELETE", "/v1/models/tiny", ["GET", "HEAD"]),
        ("GET", "/v1/audio/transcriptions", ["POST"]),
    ],
)
def test_a_path_that_is_here_says_which_methods_it_takes(client, method, path, takes):
    response = client.request(method, path)
    assert response.status_code == 405
    error = response.json()["error"]
    assert error["code"] == "method_not_allowed"
    told = error["message"].removeprefix(f"{path} takes ").removesuffix(f", not {method}")
    assert sorted(told.split(" and ")) == sorted(response.headers["allow"].split(", ")) == takes


@pytest.mark.parametrize(("given", "shown"), [({}, "None"), ({"model": 5}, "5")], ids=str)
def test_several_models_need_a_choice(client, given, shown):
    response = client.post(TEXT, json={**given, **GREEDY})
    assert response.status_code == 400
    assert response.json()["error"]["message"] == f"model is {shown}; give one of: chat, tiny"


@pytest.mark.parametrize("given", [{}, {"model": "gpt-9"}], ids=str)
def test_a_single_model_answers_to_any_name(pairs, given):
    only = {"tiny": pairs["tiny"]}
    with TestClient(application(only, {}), base_url="http://localhost") as client:
        answer = client.post(TEXT, json={**given, **GREEDY})
    assert (answer.status_code, answer.json()["model"]) == (200, "tiny")


# --- the command ---------------------------------------------------------------------------------


def test_the_command_serves_several_pairs_at_once(chat_folder, tiny_folder, pairs):
    """One by the name that it was given, one by that of its folder."""
    named = {f"my={chat_folder}": "my", str(tiny_folder): tiny_folder.name}
    arguments = [EDGESPEC, "serve", *named, "--port", "0", "--threads", "1"]
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True) as process:
        lines = [process.stderr.readline() for _ in named]
        assert [line.split(" at http")[0] for line in lines] == list(named.values())
        port = int(lines[0].split("/v1")[0].rpartition(":")[2])
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none")

        def text(name):
            return client.completions.create(model=name, **GREEDY).choices[0].text

        with ThreadPoolExecutor(6) as pool:
            texts = list(pool.map(text, [*named.values()] * 3))
        expected = [
            pair.generate("once", chat=False, max_new_tokens=8).text for pair in pairs.values()
        ]
        assert texts == expected * 3
        for name in named.values():
            assert metrics(port, name)["edgespec_texts_total"] == 3
        connection = connected(port)
        connection.request("GET", "/health")
        assert connection.getresponse().status == 200
        connection.close()
        client.close()
        process.terminate()
        process.communicate(timeout=60)


def test_two_pairs_of_one_name_are_one_line(tiny_folder):
    error = run("serve", tiny_folder, tiny_folder, "--port", "0", code=2).stderr
    name = tiny_folder.name
    assert error.startswith(f"edgespec: two pairs have the name '{name}'; give one another: NAME=")
    assert len(error.splitlines()) == 1
