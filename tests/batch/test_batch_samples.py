"""Claim: a line with `n` has the answers that the server gives for the same body, in one result.

The prompt is read and counted once, and no interruption splits or repeats a line.
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from depth import deep

pytest.importorskip("starlette")

from starlette.testclient import TestClient

import edgespec
from batch_files import choices_of, lines_of, messages_of, written
from command import EDGESPEC, run
from edgespec.artifact.chat_format import user_message
from edgespec.batch.answering import Answering, AnsweringOptions
from edgespec.batch.request_line import read_line
from edgespec.batch.result_lines import errors_path, partial_path
from edgespec.device.kernels import installed_kernels
from edgespec.errors import EdgespecError
from edgespec.pair.concurrent.batch import Batch
from edgespec.pair.concurrent.samples import Samples
from edgespec.pair.generation import Stream
from edgespec.server.app import application
from edgespec.server.limits import Limits
from serving import CHAT, DRAFTED, QUESTION, TEXT

DRAWN = {"temperature": 0.9, "seed": 7, "max_tokens": 12}
MESSAGES = [user_message(QUESTION)]
FAST = ("--threads", 1)
AT_ONCE = 3  # fewer than some lines ask for
BODIES = [
    (CHAT, {"messages": MESSAGES, **DRAWN, "n": 5}),
    (TEXT, {"prompt": "once", **DRAWN, "n": 3, "logprobs": 1}),
    (CHAT, {"messages": MESSAGES, **DRAWN, "n": 2, "logprobs": True, "top_logprobs": 2}),
    (CHAT, {"messages": MESSAGES, **DRAWN}),
    (TEXT, {"prompt": "upon a", "temperature": 0, "n": 2, "stop": ["a", "e"]}),
    (CHAT, {"messages": MESSAGES, **DRAWN, "n": 4, "response_format": {"type": "json_object"}}),
]


@pytest.fixture(scope="module", params=["int8", "fp32"], ids=["shared calls", "one after another"])
def target_format(request) -> str:
    """fp32 products of ONNX Runtime share no calls."""
    if request.param == "int8" and installed_kernels() is None:
        pytest.skip("needs kernels")
    return request.param


@pytest.fixture(scope="module")
def pair(target_format, chat_folder) -> edgespec.Pair:
    pair = edgespec.load(chat_folder, threads=1, target_format=target_format)
    assert pair.shares_calls == (target_format == "int8")
    return pair


def openai_lines(folder: Path) -> Path:
    lines = [
        {"custom_id": f"request-{number}", "method": "POST", "url": url, "body": body}
        for number, (url, body) in enumerate(BODIES)
    ]
    return written(folder / "in.jsonl", *lines)


def comparable(body: dict) -> dict:
    """Without what names one answer, and how the pair got there."""
    del body["id"], body["created"], body["usage"]["completion_tokens_details"]
    return body


# --- answers --------------------------------------------------------------------------------------


def test_the_answers_to_a_line_are_those_of_the_server_to_its_body(
    pair, target_format, chat_folder, tmp_path
):
    served = application({chat_folder.name: pair}, DRAFTED, Limits(texts=AT_ONCE))
    with TestClient(served, base_url="http://localhost") as client:
        expected = [comparable(client.post(url, json=body).json()) for url, body in BODIES]
    out = tmp_path / "out.jsonl"
    how = ("--draft", "model", "--gamma", 3, "--texts", AT_ONCE, "--target-format", target_format)
    run("batch", chat_folder, openai_lines(tmp_path), "-o", out, *how, *FAST)
    assert [comparable(line["response"]["body"]) for line in lines_of(out)] == expected
    for answer, (_, body) in zip(expected, BODIES, strict=True):
        n = body.get("n", 1)
        assert [choice["index"] for choice in answer["choices"]] == list(range(n))
    drawn = [choice["message"]["content"] for choice in expected[0]["choices"]]
    assert len(set(drawn)) > 1


def test_the_prompt_is_counted_once_and_all_texts_are(pair, tmp_path):
    lines = [
        read_line(1, json.dumps({"prompt": "once upon", **DRAWN, "n": 4}).encode()),
    ]
    (answer,) = Answering(pair, AnsweringOptions("small", AT_ONCE, {}, {})).answers(lines)
    alone = [
        pair.generate("once upon", max_new_tokens=12, temperature=0.9, seed=7 + number)
        for number in range(4)
    ]
    usage = answer["response"]["body"]["usage"]
    made = sum(len(result.token_ids) for result in alone)
    assert usage["prompt_tokens"] == alone[0].prompt_tokens
    assert usage["completion_tokens"] == made
    assert usage["total_tokens"] == alone[0].prompt_tokens + made


def test_with_a_seed_of_the_command_text_i_of_line_n_draws_with_i_and_n_more(
    pair, target_format, chat_folder, tmp_path
):
    out = tmp_path / "out.jsonl"
    source = written(tmp_path / "in", *[{"prompt": "x", "temperature": 1, "n": 3}] * 2)
    how = ("--seed", 7, "-n", 8, "--target-format", target_format)
    run("batch", chat_folder, source, "-o", out, *how, *FAST)
    for line, texts in enumerate(choices_of(out).values()):
        assert texts == [
            pair.generate("x", max_new_tokens=8, temperature=1, seed=7 + line + number).text
            for number in range(3)
        ]


def test_a_prompt_is_read_once(chat_folder, monkeypatch):
    if installed_kernels() is None:
        pytest.skip("needs kernels")
    pair = edgespec.load(chat_folder, threads=1, target_format="int8")
    made: list[Batch] = []
    monkeypatch.setattr(
        edgespec.Pair,
        "many",
        lambda self, texts: made.append(Batch(self.text_engine, texts)) or made[-1],
    )
    prompt = QUESTION * 20
    line = read_line(1, json.dumps({"prompt": prompt, **DRAWN, "max_tokens": 2, "n": 7}).encode())
    answering = Answering(pair, AnsweringOptions("small", AT_ONCE, {}, {}))
    (answer,) = answering.answers([line])
    assert len(answer["response"]["body"]["choices"]) == 7
    (many,) = made
    assert many.target is not None
    assert len(pair.encode(prompt)) < many.target.rows < 2 * len(pair.encode(prompt))


# --- interruptions --------------------------------------------------------------------------------


@deep
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="Windows has no SIGKILL")
def test_a_process_that_is_killed_loses_and_repeats_no_text(chat_folder, tmp_path):
    count, n = 60, 4
    lines = [{"prompt": f"line {number}", "temperature": 1, "n": n} for number in range(count)]
    source = written(tmp_path / "in.jsonl", *lines)
    whole, out = tmp_path / "whole.jsonl", tmp_path / "out.jsonl"
    how = ["--seed", "5", "-n", "16", "--texts", "3", *map(str, FAST)]
    run("batch", chat_folder, source, "-o", whole, *how)
    command = [str(part) for part in ("batch", chat_folder, source, "-o", out, *how)]
    process = subprocess.Popen([EDGESPEC, *command], stderr=subprocess.DEVNULL)
    partial = partial_path(out)
    while process.poll() is None and not (partial.exists() and b"line-5" in partial.read_bytes()):
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert not out.exists(), "the batch ended before it was killed"
    done = json.loads(run(*command, "--json").stdout)
    assert 5 <= done["earlier"] < count
    texts = choices_of(out)
    assert texts == choices_of(whole)
    assert {len(of_line) for of_line in texts.values()} == {n}


# --- errors ---------------------------------------------------------------------------------------

TO_128 = "give a whole number from 1 to 128"
BAD = {
    "none": ({"n": 0}, f"n is 0; {TO_128}"),
    "more than the server makes": ({"n": 129}, f"n is 129; {TO_128}"),
    "a truth value": ({"n": True}, f"n is True; {TO_128}"),
    "a text": ({"n": "2"}, f"n is '2'; {TO_128}"),
    "a prompt that is too long": ({"n": 4, "prompt": "x" * 2000}, "the cache holds"),
    "an option out of range": ({"n": 4, "min_p": 2}, "min_p is 2"),
}


def test_a_line_that_cannot_be_answered_is_one_error_and_the_others_go_on(
    pair, target_format, chat_folder, tmp_path
):
    good = {"prompt": "x", **DRAWN, "n": 2}
    lines = [good, *({"prompt": "x", **fields} for fields, _ in BAD.values()), good]
    out = tmp_path / "out.jsonl"
    source = written(tmp_path / "in", *lines)
    run("batch", chat_folder, source, "-o", out, "--target-format", target_format, *FAST)
    texts = choices_of(out)
    assert list(texts) == ["line-1", f"line-{len(lines)}"]
    assert texts["line-1"] == texts[f"line-{len(lines)}"]
    messages = messages_of(errors_path(out))
    assert len(messages) == len(BAD)
    for message, (what, (_, part)) in zip(messages.values(), BAD.items(), strict=True):
        assert part in message, what


def test_a_text_that_fails_ends_its_line_alone_and_frees_its_caches(pair, monkeypatch):
    ready = Stream.ready

    def failing(stream):
        if stream.result.prompt_tokens == len(pair.encode("bad")) and stream.result.token_ids:
            raise EdgespecError("no memory")
        return ready(stream)

    monkeypatch.setattr(Stream, "ready", failing)
    prompts = ["bad", "good one", "good one"]  # the first takes all caches
    lines = [
        read_line(number, json.dumps({"prompt": prompt, **DRAWN, "n": 4}).encode())
        for number, prompt in enumerate(prompts, start=1)
    ]
    answering = Answering(pair, AnsweringOptions("small", AT_ONCE, {}, {}))
    failed, *good = sorted(answering.answers(lines), key=lambda answer: answer["id"])
    assert failed["response"]["status_code"] == 500
    assert failed["response"]["body"]["error"]["message"] == "no memory"
    first, second = (answer["response"]["body"]["choices"] for answer in good)
    assert len(first) == 4
    assert first == second


def test_samples_that_find_no_cache_free_wait_for_one(pair):
    many = pair.many(1)
    with many.stream("other"):
        samples = Samples(many, ["once"], 2, {"max_new_tokens": 3})
        samples.grow()
        assert (samples.results, samples.ended) == ([], False)
    while not samples.ended:
        samples.grow()
        many.step()
    assert [len(result.token_ids) for result in samples.results] == [3, 3]
