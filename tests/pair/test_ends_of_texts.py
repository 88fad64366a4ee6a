"""Claim: a text ends where plain decoding's does, at any token of a drafted run, for every reader
of its rounds: alone, beside others, several of one prompt, streamed."""

from __future__ import annotations

import asyncio

import pytest

import edgespec
from depth import one_in

GAMMA = 5
DRAFTED = {"draft": "model", "gamma": GAMMA}
SAMPLINGS = [{}, {"temperature": 1.0, "seed": 2}]
ENDS = range(1, 2 * (GAMMA + 1) + 1)


def same(found, expected):
    assert found.token_ids == expected.token_ids
    assert found.text == expected.text
    assert found.finish_reason == expected.finish_reason
    assert found.logprobs == expected.logprobs
    assert found.top_logprobs == expected.top_logprobs


def options_of(pair, sampling, count, end):
    """Options of a text that ends about token `count`: by a string, a number, or a grammar."""
    options = {"logprobs": True, "top_logprobs": 2, "ignore_eos": True, **sampling}
    if end == "number":
        return options | {"max_new_tokens": count}
    if end == "grammar":
        grammar = edgespec.regex(f"[a-z]{{{count}}}")
        return options | {"ignore_eos": False, "grammar": grammar, "max_new_tokens": 40}
    text = pair.generate("x", draft=False, **options, max_new_tokens=count).text
    return options | {"stop": [text[-2:] or "x"], "max_new_tokens": 40}


@one_in(2)
@pytest.mark.parametrize("sampling", SAMPLINGS, ids=["greedy", "sampled"])
@pytest.mark.parametrize("end", ["string", "number", "grammar"])
def test_a_text_ends_at_any_token_of_a_drafted_run(tiny, end, sampling):
    if end == "grammar":
        pytest.importorskip("llguidance")
    for count in ENDS:
        options = options_of(tiny, sampling, count, end)
        same(tiny.generate("x", **DRAFTED, **options), tiny.generate("x", draft=False, **options))


async def alone_and_concurrent(pair, options):
    """The results of coroutines that share calls."""
    async with pair.amany(2) as many:
        streams = [many.stream("x", **DRAFTED, **options) for _ in range(2)]

        async def read(stream):
            async for _ in stream:
                pass
            return stream.result

        return await asyncio.gather(*map(read, streams))


@one_in(2)
@pytest.mark.parametrize("end", ["string", "number"])
def test_texts_that_share_calls_end_there_too(tiny, end):
    """Two texts of one prompt: the second is drawn with the next seed."""
    for count in ENDS:
        sampling = SAMPLINGS[1]
        options = options_of(tiny, sampling, count, end)
        expected = [
            tiny.generate("x", **{**options, "seed": sampling["seed"] + number}, draft=False)
            for number in range(2)
        ]
        for found, plain in zip(
            tiny.generate_many(["x"], n=2, texts=2, **DRAFTED, **options), expected, strict=True
        ):
            same(found, plain)
        for found in asyncio.run(alone_and_concurrent(tiny, options)):
            same(found, expected[0])
