"""Claim: OpenAI clients get the target's own texts from a pair that is served.

A field that would change the text and is not known is refused, a text that nobody waits for any
more ends, and requests are answered one after the other.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import edgespec
from command import EDGESPEC, run
from depth import one_in
from serving import CHAT, DRAFTED, GREEDY, QUESTION, TEXT, Served, chat, connected, events, sent

openai = pytest.importorskip("openai")

from starlette.testclient import TestClient  # noqa: E402

from edgespec.artifact.chat_format import user_message  # noqa: E402
from edgespec.errors import EdgespecError, shortened  # noqa: E402
from edgespec.openai.openai_absent import ABSENT, HARMLESS, INSTEAD  # noqa: E402
from edgespec.openai.openai_fields import TEXT_TYPES, TYPES  # noqa: E402
from edgespec.openai.unknown_fields import MOST_NOTES, UnknownFields  # noqa: E402
from edgespec.server.app import application  # noqa: E402

DRAWN = {"temperature": 0.9, "top_p": 0.8, "seed": 7, "max_tokens": 30}


@pytest.fixture(scope="module")
def pair(chat_folder) -> edgespec.Pair:
    return edgespec.load(chat_folder, threads=1)


@pytest.fixture
def client(pair):
    with TestClient(application({"small": pair}, DRAFTED), base_url="http://localhost") as client:
        yield client


def own(pair, prompt=None, **options):
    """What the pair generates without a server."""
    renamed = {"max_tokens": "max_new_tokens"}
    options = {renamed.get(name, name): value for name, value in options.items()}
    given = prompt or [user_message(QUESTION)]
    return pair.generate(given, **DRAFTED, **{"chat": False, **options})


# --- texts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [GREEDY, DRAWN], ids=["greedy", "drawn"])
def test_a_chat_answer_is_the_text_of_the_pair(client, pair, options):
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


def test_an_answer_is_the_plain_text_of_its_seed(client, pair):
    answer = client.post(CHAT, json=chat(**DRAWN)).json()
    options = {name: DRAWN[name] for name in ("temperature", "top_p", "seed")}
    plain = pair.generate([user_message(QUESTION)], draft=False, max_new_tokens=30, **options)
    assert answer["choices"][0]["message"]["content"] == plain.text


@pytest.mark.parametrize("options", [GREEDY, DRAWN], ids=["greedy", "drawn"])
@pytest.mark.parametrize("counted", [True, False])
def test_a_streamed_answer_is_the_same_in_pieces(client, options, counted):
    whole = client.post(CHAT, json=chat(**options)).json()
    wanted = {"stream": True, "stream_options": {"include_usage": counted}}
    response = client.post(CHAT, json=chat(**options, **wanted))
    assert response.headers["content-type"].startswith("text/event-stream")
    first, *pieces = events(response.text)
    usage = pieces.pop() if counted else None
    last = pieces.pop()
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    text = "".join(piece["choices"][0]["delta"]["content"] for piece in pieces)
    assert text == whole["choices"][0]["message"]["content"]
    assert (last["choices"][0]["delta"], last["choices"][0]["finish_reason"]) == ({}, "length")
    assert len({event["id"] for event in (first, *pieces, last)}) == 1
    if counted:
        assert (usage["choices"], usage["usage"]) == ([], whole["usage"])


@pytest.mark.parametrize("prompt", ["once", ["once"], [5, 6, 7], [[5, 6, 7]]], ids=str)
def test_a_text_or_token_ids_are_continued_without_a_chat_format(client, pair, prompt):
    plain = prompt[0] if isinstance(prompt[0], (str, list)) and prompt != "once" else prompt
    answer = client.post(TEXT, json={"prompt": prompt, **GREEDY}).json()
    assert answer["object"] == "text_completion"
    assert answer["choices"][0]["text"] == own(pair, plain, **GREEDY).text
    pieces = events(client.post(TEXT, json={"prompt": prompt, **GREEDY, "stream": True}).text)
    text = "".join(piece["choices"][0]["text"] for piece in pieces)
    assert text == answer["choices"][0]["text"]


def test_a_conversation_continues_after_a_system_prompt_in_parts(client, pair):
    earlier = [{"role": "system", "content": "Be brief."}, user_message("Hi")]
    earlier.append({"role": "assistant", "content": own(pair, earlier, **GREEDY).text})
    empty = {"refusal": None, "annotations": [], "tool_calls": None}
    messages = [
        {"role": "developer", "content": [{"type": "text", "text": "Be "}, text("brief.")]},
        earlier[1],
        {**earlier[2], **empty},
        {"role": "user", "content": [text(QUESTION)]},
    ]
    answer = client.post(CHAT, json={"messages": messages, **GREEDY}).json()
    expected = own(pair, [*earlier, user_message(QUESTION)], **GREEDY)
    assert answer["choices"][0]["message"]["content"] == expected.text


def text(content):
    return {"type": "text", "text": content}


def test_missing_fields_have_openais_defaults(client, pair):
    """Temperature 1, and 16 tokens of a completion."""
    request = {"prompt": "once", "seed": 5}
    choice = client.post(TEXT, json=request).json()["choices"][0]
    assert choice["text"] == own(pair, "once", temperature=1.0, seed=5, max_tokens=16).text
    request = {"messages": [user_message(QUESTION)], "seed": 5, "max_tokens": 20}
    message = client.post(CHAT, json=request).json()["choices"][0]["message"]
    assert message["content"] == own(pair, temperature=1.0, seed=5, max_tokens=20).text


def test_a_stop_string_ends_the_text_and_is_the_reason(client, pair):
    whole = own(pair, **GREEDY).text
    end = whole[8:10]
    choice = client.post(CHAT, json=chat(stop=[end])).json()["choices"][0]
    assert choice["finish_reason"] == "stop"
    assert choice["message"]["content"] == whole[: whole.index(end)]


def test_openais_own_client_is_served(pair):
    with Served(pair) as port:
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none")
        assert [model.id for model in client.models.list()] == ["small"]
        assert client.models.retrieve("small").object == "model"
        with pytest.raises(openai.NotFoundError, match="The model `large` does not exist here"):
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
        with pytest.raises(openai.BadRequestError, match="best_of is 2"):
            client.completions.create(model="small", prompt="once", best_of=2)


# --- refusals ------------------------------------------------------------------------------------


def refused(client, path, status=400, **request):
    response = client.post(path, **request)
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert error["type"] == "invalid_request_error"
    return error["message"]


def is_absent(name, value):
    return f"{name} is {value!r}, which is not there; "


@pytest.mark.parametrize("name", sorted(ABSENT.keys() - TYPES.keys() - {"messages"}))
def test_a_field_that_would_change_the_answer_is_refused_unless_it_asks_for_nothing(client, name):
    message = refused(client, CHAT, json=chat(**{name: ["something"]}))
    assert message.startswith(is_absent(name, ["something"]))
    for nothing in (*ABSENT[name][:1], None):
        assert client.post(CHAT, json=chat(max_tokens=2, **{name: nothing})).status_code == 200


@one_in(3)
@pytest.mark.parametrize("name", sorted(ABSENT.keys() - TEXT_TYPES.keys() - {"prompt"}))
def test_it_is_refused_at_completions_too(client, name):
    body = {"prompt": "a", "max_tokens": 2}
    message = refused(client, TEXT, json={**body, name: ["something"]})
    assert message.startswith(is_absent(name, ["something"]))
    for nothing in (*ABSENT[name][:1], None):
        assert client.post(TEXT, json={**body, name: nothing}).status_code == 200


@pytest.mark.parametrize("name", sorted(INSTEAD.keys() - TYPES.keys() - {"messages"}))
def test_a_refusal_says_what_has_the_same_effect(client, name):
    assert f"use {INSTEAD[name]}" in refused(client, CHAT, json=chat(**{name: ["x"]}))


@pytest.mark.parametrize(("n", "best_of"), [(1, 1), (2, 2), (2, 1)])
def test_the_best_of_as_many_texts_as_are_asked_for_is_no_choice(client, n, best_of):
    body = {"prompt": "a", "max_tokens": 2, "n": n}
    assert client.post(TEXT, json={**body, "best_of": best_of}).status_code == 200
    assert refused(client, TEXT, json={**body, "best_of": 3}).startswith("best_of is 3, and the")


UNKNOWN = {
    "top": {"stop_at": 3},
    "of the stream": {"stream_options": {"include_usage": False, "chunk_size": 3}},
    "of the format": {"response_format": {"type": "text", "style": "plain"}},
}


@pytest.mark.parametrize("fields", UNKNOWN.values(), ids=UNKNOWN)
def test_an_unknown_field_is_passed_over_with_a_note_once(pair, fields, caplog):
    served = application({"small": pair}, DRAFTED)
    with TestClient(served, base_url="http://localhost") as client:
        whole = client.post(CHAT, json=chat()).json()["choices"]
        for _ in range(2):
            assert client.post(CHAT, json=chat(**fields)).json()["choices"] == whole
    (note,) = [record.getMessage() for record in caplog.records if record.name == "edgespec"]
    assert re.fullmatch(r"a request has the field [\w.]+, which is not known: ignored", note)


@pytest.mark.parametrize("fields", UNKNOWN.values(), ids=UNKNOWN)
def test_it_is_refused_if_that_is_wanted(pair, fields):
    served = application({"small": pair}, DRAFTED, strict=True)
    with TestClient(served, base_url="http://localhost") as client:
        message = refused(client, CHAT, json=chat(**fields))
        assert message.endswith(" is not known here, and --strict is on; leave it out")
        assert client.post(CHAT, json=chat(user="me")).status_code == 200


def test_no_more_notes_than_a_log_can_bear(caplog):
    fields = UnknownFields(strict=False)
    for number in range(3):
        fields.check({f"x{number}.{index}": 1 for index in range(MOST_NOTES)})
    assert len(caplog.records) == MOST_NOTES


EDITS = {
    **{"repetition_penalty": 1.2, "presence_penalty": 0.5, "frequency_penalty": 0.25},
    **{"logit_bias": {"40": 3}, "min_tokens": 9},
}


@pytest.mark.parametrize("name", EDITS)
def test_changes_of_logits_are_those_of_the_pair(client, pair, name):
    fields = {"messages": [user_message(QUESTION)], "temperature": 0, "max_tokens": 30}
    answer = client.post(CHAT, json={**fields, name: EDITS[name]}).json()
    options = {name: {40: 3} if name == "logit_bias" else EDITS[name]}
    alone = pair.generate(fields["messages"], max_new_tokens=30, draft=False, **options)
    assert answer["choices"][0]["message"]["content"] == alone.text


def test_fields_that_no_text_depends_on_are_ignored(client):
    whole = client.post(CHAT, json=chat()).json()["choices"]
    assert client.post(CHAT, json=chat(model="gpt")).json()["choices"] == whole
    for value in ("me", {"a": "b"}, False, [3], 0):
        ignored = dict.fromkeys(HARMLESS, value)
        assert client.post(CHAT, json=chat(**ignored)).json()["choices"] == whole


@pytest.mark.parametrize(
    ("fields", "same"),
    [
        ({"top_k": -1, "temperature": 1, "seed": 3}, {"top_k": 0, "temperature": 1, "seed": 3}),
        ({"temperature": 1, "seed": -1}, {"temperature": 1, "seed": 2**64 - 1}),
        ({"temperature": 1, "seed": -(2**63), "n": 2}, {"temperature": 1, "seed": 2**63, "n": 2}),
    ],
)
def test_numbers_that_other_servers_take_are_taken(client, fields, same):
    answers = [client.post(CHAT, json=chat(**given)).json() for given in (fields, same)]
    assert answers[0]["choices"] == answers[1]["choices"]


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"temperature": "hot"}, "temperature is 'hot'"),
        ({"top_p": 2}, "top_p is 2"),
        ({"top_logprobs": 2}, "top_logprobs is 2 without logprobs"),
        ({"presence_penalty": 3}, "presence_penalty is 3"),
        ({"repetition_penalty": 0}, "repetition_penalty is 0"),
        ({"logit_bias": {"5": 101}}, "logit_bias of token 5 is 101"),
        ({"logit_bias": {"999999999": 1}}, "logit_bias has the token 999999999"),
        ({"max_tokens": 0}, "max_tokens is 0"),
        ({"seed": 2**64}, "seed is 18446744073709551616; give a whole number of 64 bits"),
        ({"stop": [3]}, "stop is [3]"),
        ({"messages": None}, "messages is None"),
        ({"messages": "hello"}, "messages is 'hello'"),
        ({"messages": []}, "messages is []; give at least one message"),
        ({"messages": ["hello"]}, "message 1 is 'hello'"),
        ({"messages": [1, 2, 3]}, "message 1 is 1"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "message 1 is"),
        ({"messages": [{"role": "user", "content": 5}]}, "message 1 has the content 5"),
        ({"chat_template_kwargs": {"messages": []}}, "messages is not an option"),
        ({"enable_thinking": "no"}, "enable_thinking is 'no'; give true or false"),
        (
            {"continue_final_message": True, "add_generation_prompt": True},
            "continue_final_message goes on with the last message",
        ),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "only text"),
        ({"messages": [user_message("long " * 400)]}, "the cache holds"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_request_that_cannot_be_answered_is_one_line_and_no_stream(client, fields, part, streams):
    message = refused(client, CHAT, json=chat(**{**fields, "stream": streams}))
    assert part in message
    assert "\n" not in message
    assert client.post(CHAT, json=chat()).status_code == 200


WRONG_TYPES = {
    "max_tokens": [True, 1.5, "5", 0],
    "max_completion_tokens": [True, -1],
    "temperature": [True, "hot", [1], 10**400],
    "top_p": [True, {}],
    "top_k": [True, 1.5, -2],
    "min_p": ["x"],
    "top_n_sigma": ["x"],
    "xtc_probability": ["x"],
    "xtc_threshold": ["x"],
    "repetition_penalty": [True, "x"],
    "presence_penalty": [False, "x"],
    "frequency_penalty": [False, [1]],
    "logit_bias": [[1], {"a": 1}, {"-5": 1}, {"5": "1"}, {"5": True}],
    "min_tokens": [True, -1, 1.5],
    "seed": [True, 1.5, "x", -(2**63) - 1],
    "stop": [{"a": 1}, 5, ["a", 5], True],
    "ignore_eos": [1, "true"],
    "model": [5],
    "n": [True, 0, -1, 129, 1.5, "2"],
    "stream": ["x", 1],
    "stream_options": [True, {"include_usage": 1.5}],
    "parallel_tool_calls": [1],
    "tools": ["x", {}, ["x"]],
    "tool_choice": [1, ["auto"]],
    "response_format": ["json_object", [1]],
    "logprobs": [1, "x"],
    "top_logprobs": [True, -1, 21, 1.5],
    "chat_template_kwargs": [True, "x", [1]],
    "enable_thinking": [0, "no"],
    "reasoning_effort": [True, 3, {}],
    "continue_final_message": [1, "true"],
    "add_generation_prompt": [1, "true"],
    "thinking_budget": [True, -1, "x", 1.5],
    "thinking_token_budget": [True, -1],
    "separate_reasoning": [1, "true"],
    "source_language": [1, ["de_DE"]],
    "target_language": [True, {}],
}
NEARLY_NEUTRAL = {"num_beams": True, "use_beam_search": 0}


def test_every_field_with_a_type_has_a_case():
    assert WRONG_TYPES.keys() == TYPES.keys()


@one_in(2)
@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, values in WRONG_TYPES.items() for value in values],
    ids=lambda value: repr(value)[:20],
)
def test_a_value_of_another_type_is_refused(client, name, value):
    message = refused(client, CHAT, json=chat(**{name: value}))
    assert message.startswith(f"{name} is {shortened(value)}; give ")


@pytest.mark.parametrize("name", NEARLY_NEUTRAL)
def test_true_is_not_one(client, name):
    message = refused(client, CHAT, json=chat(**{name: NEARLY_NEUTRAL[name]}))
    assert message.startswith(is_absent(name, NEARLY_NEUTRAL[name]))


@pytest.mark.parametrize(
    "fields",
    [
        *({name: "x" * 5000} for name in ("temperature", "n", "messages", "grammar", "tools")),
        {"messages": ["x" * 5000]},
        {"messages": [{"role": "user", "content": [{"type": "x" * 5000}]}]},
        {"messages": [{"role": "x" * 5000, "content": "a"}]},
        {"temperature": [1] * 5000},
    ],
    ids=range(9),
)
def test_a_long_value_is_cut_in_the_message(client, fields):
    assert len(refused(client, CHAT, json=chat(**fields))) < 250


@pytest.mark.parametrize(
    "content_type",
    ["Application/JSON", "application/json; charset=utf-8", "APPLICATION/JSON ;charset=UTF-8"],
)
def test_the_content_type_may_be_in_capitals_and_have_parameters(client, content_type):
    headers = {"content-type": content_type}
    assert client.post(CHAT, content=json.dumps(chat()), headers=headers).status_code == 200


@pytest.mark.parametrize(
    "prompt", [None, 5, {}, [], [1.5], [272], ["a", 5], [[5], [1.5]], [[5], [272]]], ids=str
)
def test_a_prompt_of_another_type_is_refused(client, prompt):
    assert refused(client, TEXT, json={"prompt": prompt, **GREEDY})


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b"[" * 99999], ids=len)
def test_a_body_that_is_no_json_is_refused(client, body):
    headers = {"content-type": "application/json"}
    assert "the request is" in refused(client, CHAT, content=body, headers=headers)


def test_nan_is_refused(client):
    """JSON has no NaN, but Python's reader accepts it."""
    body = json.dumps(chat(temperature=float("nan")))
    headers = {"content-type": "application/json"}
    assert "temperature is nan" in refused(client, CHAT, content=body, headers=headers)


def test_a_web_page_is_refused(client, pair):
    """A web page may send plain text to any server, and give this machine a name of its own."""
    headers = {"content-type": "text/plain", "sec-fetch-site": "none"}
    assert "no JSON" in refused(client, CHAT, content=json.dumps(chat()), headers=headers)
    assert "--host NAME" in refused(client, CHAT, json=chat(), headers={"host": "evil.example"})
    everywhere = application({"small": pair}, {}, host="0.0.0.0")
    with TestClient(everywhere, base_url="http://my.machine") as open_to_all:
        assert open_to_all.get("/health").json() == {"status": "ok"}


@pytest.mark.parametrize("path", [CHAT, "/v1/messages", "/api/chat"])
def test_a_program_need_not_say_that_its_body_is_json(client, path):
    """As `curl -d` does not, in Ollama's examples."""
    headers = {"content-type": "application/x-www-form-urlencoded"}
    body = json.dumps(chat(max_tokens=2, stream=False))
    assert client.post(path, content=body, headers=headers).status_code == 200


@pytest.mark.parametrize("origin", ["https://elsewhere.example", "null", "http://localhost:3000"])
def test_a_page_of_another_origin_is_refused(client, origin):
    refusal = client.post(CHAT, json=chat(), headers={"Origin": origin})
    assert refusal.status_code == 403
    assert "--allow-origin" in refusal.json()["error"]["message"]


def test_a_page_of_an_allowed_origin_may_read_answers(pair):
    own = "https://own.example"
    served = application({"small": pair}, DRAFTED, origins=[own])
    with TestClient(served, base_url="http://localhost") as client:
        asked = {"Origin": own, "Access-Control-Request-Method": "POST"}
        assert client.options(CHAT, headers=asked).status_code == 200
        answer = client.post(CHAT, json=chat(), headers={"Origin": own})
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == own
        assert client.post(CHAT, json=chat(), headers={"Origin": own + ".x"}).status_code == 403


@pytest.mark.parametrize("given", [None, "Bearer wrong", "key-1", "Bearer key-1x", "Bearer ü"])
def test_without_the_key_nothing_is_answered(pair, given):
    headers = {} if given is None else {"Authorization": given.encode()}
    served = application({"small": pair}, DRAFTED, api_key="key-1")
    with TestClient(served, base_url="http://localhost") as client:
        for refusal in (
            client.post(CHAT, json=chat(), headers=headers),
            client.get("/v1/models", headers=headers),
            client.get("/metrics", headers=headers),
        ):
            assert refusal.status_code == 401
            assert "Authorization: Bearer KEY" in refusal.json()["error"]["message"]
        assert client.get("/health").status_code == 200
        right = {"Authorization": "Bearer key-1"}
        assert client.post(CHAT, json=chat(), headers=right).status_code == 200


@pytest.mark.parametrize(("key", "said"), [("", "is empty"), ("a b", "no header"), ("ü", "ASCII")])
def test_a_key_that_every_request_or_none_would_bring_is_refused(pair, key, said):
    served = application({"small": pair}, DRAFTED, api_key=key)
    with pytest.raises(edgespec.UsageError, match=said), TestClient(served):
        pass


def test_a_key_that_the_environment_leaves_empty_is_refused(chat_folder, monkeypatch):
    """click takes an empty variable for one that is not set: the server would be open."""
    monkeypatch.setenv("EDGESPEC_API_KEY", "")
    assert "the API key is empty" in run("serve", chat_folder, "--port", 0, code=2).stderr


def test_it_listens_at_an_ipv6_address(pair):
    try:
        served = Served(pair, "::1")
    except edgespec.UsageError:
        pytest.skip("this system has no IPv6")
    with served as port:
        connection = connected(port, "::1")
        connection.request("GET", "/health")
        assert connection.getresponse().status == 200
        connection.close()


def test_a_model_without_a_chat_format_completes_texts_only(tiny):
    with TestClient(application({"tiny": tiny}, {}), base_url="http://localhost") as client:
        assert "chat format" in refused(client, CHAT, json=chat())
        assert client.post(TEXT, json={"prompt": "x", **GREEDY}).status_code == 200


# --- several at once -----------------------------------------------------------------------------


def test_requests_are_answered_one_after_the_other(pair):
    """A pair holds one text; two at once would overwrite each other's cache."""
    ways = [{"messages": [user_message(QUESTION + "!" * n)], **DRAWN} for n in range(6)]
    expected = [own(pair, way["messages"], **DRAWN).text for way in ways]
    with Served(pair) as port, ThreadPoolExecutor(6) as pool:

        def answer(way):
            connection = sent(port, **way, stream=ways.index(way) % 2 == 0)
            answer = connection.getresponse().read().decode()
            connection.close()
            if not answer.startswith("data: "):
                return json.loads(answer)["choices"][0]["message"]["content"]
            parts = [json.loads(part[6:]) for part in answer.split("\n\n")[:-2]]
            return "".join(p["choices"][0]["delta"].get("content", "") for p in parts)

        assert list(pool.map(answer, ways)) == expected


@pytest.mark.parametrize("streams", [True, False])
def test_a_text_that_nobody_waits_for_ends(pair, monkeypatch, streams):
    """A text without an end, which only a client that leaves can end."""
    stream, begun = pair.text_engine.stream, threading.Event()

    def endless(prompt, options):
        result = stream(prompt, options)
        if options["max_new_tokens"] > 500:
            chunk = next(result)
            result._chunks = iter(lambda: begun.set() or chunk, None)
        return result

    monkeypatch.setattr(pair.text_engine, "stream", endless)
    with Served(pair) as port:
        left = sent(port, max_tokens=900, stream=streams)
        assert begun.wait(60)
        left.close()
        next_ = sent(port)
        assert next_.getresponse().status == 200
        next_.close()


def test_an_error_after_the_first_token_is_an_event_without_an_end_mark(client, pair, monkeypatch):
    stream = pair.text_engine.stream

    def failing(prompt, options):
        result = stream(prompt, options)
        chunks = result._chunks

        def until():
            yield next(chunks)
            chunks.close()
            raise EdgespecError("the target cannot be run")

        result._chunks = until()
        return result

    monkeypatch.setattr(pair.text_engine, "stream", failing)
    lines = client.post(CHAT, json=chat(stream=True)).text.split("\n\n")
    assert "data: [DONE]" not in lines
    assert json.loads(lines[-2].removeprefix("data: "))["error"]["type"] == "server_error"
    response = client.post(CHAT, json=chat())
    assert response.status_code == 500
    assert "the target cannot be run" in response.json()["error"]["message"]


# --- the command ---------------------------------------------------------------------------------


def test_the_command_serves_until_it_is_interrupted(chat_folder):
    arguments = [EDGESPEC, "serve", chat_folder, "--port", "0", "--threads", "1", "--gamma", "2"]
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True) as process:
        line = process.stderr.readline()
        assert line.startswith("pair at http://127.0.0.1:")
        port = int(line.split("/v1")[0].rpartition(":")[2])
        connection = sent(port)
        assert json.loads(connection.getresponse().read())["model"] == "pair"
        connection.close()
        process.send_signal(signal.SIGINT)
        error = process.communicate(timeout=60)[1]
    assert "Traceback" not in error
    assert process.returncode == 130


def test_a_port_in_use_is_one_line(chat_folder):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        error = run("serve", chat_folder, "--port", port, code=2).stderr
    assert error.startswith(f"edgespec: cannot listen at 127.0.0.1 port {port}: ")
    assert len(error.splitlines()) == 1
    assert "cannot listen" in run("serve", chat_folder, "--host", "no.such.host.", code=2).stderr


def test_without_its_extra_the_command_says_what_to_install(chat_folder, monkeypatch):
    monkeypatch.delitem(sys.modules, "edgespec.server.http.http_server", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    error = run("serve", chat_folder, code=1).stderr
    assert re.search(r"pip install .*\[server\]", error)


def test_the_library_itself_needs_no_server():
    code = "import edgespec, edgespec.cli.main, sys; print('starlette' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, env=os.environ)
    assert result.stdout.strip() == b"False"
