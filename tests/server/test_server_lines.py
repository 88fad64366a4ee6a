"""Claim: an answer is one line to every reader of lines, and JSON in UTF-8 whatever is in it."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("starlette")
pytest.importorskip("llguidance")

from starlette.testclient import TestClient

from edgespec.batch.result_lines import result_lines
from edgespec.openai.json_value import json_line
from edgespec.server.app import application
from serving import CHAT, DRAFTED, TEXT, chat

ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"


def test_these_are_all_ends_of_lines():
    every = "".join(chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000)
    assert {line[-1] for line in every.splitlines(keepends=True)[:-1]} == {*ENDS}


@pytest.mark.parametrize("text", [*ENDS, "a\r\nb", "é😀", "\ud800", "\\u2028", '"'], ids=repr)
def test_a_text_stays_on_its_line(text):
    line = json_line({"a" + text: [text]})
    assert len(line.decode().splitlines()) == 1
    assert json.loads(line) == {"a" + text: [text]}


@pytest.fixture(scope="module")
def client(tool_pair):
    served = application({"small": tool_pair}, DRAFTED)
    with TestClient(served, base_url="http://localhost") as client:
        yield client


@pytest.mark.parametrize("end", ENDS, ids=repr)
@pytest.mark.parametrize("path", [CHAT, TEXT])
def test_a_stream_s_events_are_lines(client, path, end):
    wanted = f"a{end}b"
    rules = "start: " + json.dumps(wanted)
    form = {"type": "grammar", "grammar": {"syntax": "lark", "definition": rules}}
    asked = {"prompt": "x"} if path == TEXT else {"messages": chat()["messages"]}
    body = {**asked, "max_tokens": 40, "stream": True, "response_format": form}
    with client.stream("POST", path, json=body) as answer:
        lines = [line for line in answer.iter_lines() if line]
    assert lines.pop() == "data: [DONE]"
    choices = [json.loads(line.removeprefix("data: "))["choices"][0] for line in lines]
    texts = [c["text"] if path == TEXT else c["delta"].get("content", "") for c in choices]
    assert "".join(texts) == wanted


def test_a_batch_s_answers_are_lines(tmp_path):
    out = tmp_path / "out.jsonl"
    body = {"id": "batch_req_1", "response": {"status_code": 200, "body": {"text": ENDS}}}
    with result_lines(out, {}, replace=False) as results:
        results.add(body)
    (line,) = out.read_text(encoding="utf-8").splitlines()
    assert json.loads(line) == body
