"""Claim: a text for a model with a chat format is a question, wherever edgespec is given one
(docs/decisions/0050-chat-by-default.md); OpenAI's completions continue it as it is."""

from __future__ import annotations

import asyncio
import json

import pytest

import edgespec
from batch_files import texts_of, written
from command import run
from edgespec.batch.request_line import RequestLine, read_line
from edgespec.openai.openai_api import text_request

LENGTH = {"max_new_tokens": 6, "draft": False}


@pytest.fixture(scope="module")
def chat(chat_folder) -> edgespec.Pair:
    return edgespec.load(chat_folder, threads=1)


def asked(text):
    return [{"role": "user", "content": text}]


def test_every_call_of_a_pair_puts_the_format_around_a_text_unless_told_not_to(chat):
    answer, raw = chat.generate(asked("hi"), **LENGTH), chat.generate("hi", chat=False, **LENGTH)
    assert answer.token_ids != raw.token_ids
    assert chat.encode("hi") == chat.encode(asked("hi")) != chat.encode("hi", chat=False)
    for options, expected in (({}, answer), ({"chat": True}, answer), ({"chat": False}, raw)):
        given = {**LENGTH, **options}
        many = chat.generate_many(["hi"], texts=1, **given)
        assert chat.generate("hi", **given).token_ids == expected.token_ids
        assert [made.token_ids for made in many] == [expected.token_ids]
        (best, *_) = chat.beam_search("hi", num_beams=1, max_new_tokens=6, **options)
        assert best.token_ids == expected.token_ids

        async def alone(given=given):
            return [made async for made in chat.agenerate_many(["hi"], texts=1, **given)]

        assert asyncio.run(alone())[0].token_ids == expected.token_ids
    ids = chat.encode("hi", chat=False)
    assert chat.generate(ids, **LENGTH).token_ids == raw.token_ids
    scored = chat.score("a", prompt="hi").logprobs
    assert scored == chat.score("a", prompt=asked("hi")).logprobs
    assert scored != chat.score("a", prompt="hi", chat=False).logprobs


def test_a_model_without_a_format_continues_its_text(tiny):
    plain = tiny.generate("hi", **LENGTH)
    assert plain.token_ids == tiny.generate("hi", chat=False, **LENGTH).token_ids
    with pytest.raises(edgespec.UsageError, match="has no chat format"):
        tiny.generate("hi", chat=True)


def test_a_completion_continues_and_a_bare_line_of_a_batch_asks(chat, chat_folder, tmp_path):
    own = chat.manifest.generation
    assert text_request({"prompt": "hi"}, own).options["chat"] is False
    completion = {"url": "/v1/completions", "body": {"prompt": "hi"}}
    for line, option in (({"prompt": "hi"}, None), (completion, False)):
        read = read_line(1, json.dumps(line).encode())
        assert isinstance(read, RequestLine)
        assert read.request(own, {}).options["chat"] is option
    out = tmp_path / "out.jsonl"
    source = written(tmp_path / "in.jsonl", {"prompt": "hi", "max_tokens": 6, "temperature": 0})
    run("batch", chat_folder, source, "-o", out, "--threads", 1, "--no-draft")
    assert list(texts_of(out).values()) == [chat.generate("hi", **LENGTH).text]
