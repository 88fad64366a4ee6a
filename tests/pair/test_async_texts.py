"""Claim: coroutines of one event loop make texts at once, each the one that it would be alone.

The event loop goes on while a thread computes, and what nobody waits for any more frees its cache.
"""

from __future__ import annotations

import asyncio
import gc
import threading
from contextlib import aclosing

import pytest

import edgespec
from edgespec.device.kernels import installed_kernels
from edgespec.errors import EdgespecError
from edgespec.pair.concurrent.async_batch import interleaved
from edgespec.pair.concurrent.batch import Batch

LENGTH = {"max_new_tokens": 12}
LONG = {"max_new_tokens": 900, "ignore_eos": True}
PROMPTS = [f"{number}: Once upon a time" for number in range(9)]


@pytest.fixture(scope="module", params=["shared calls", "one after the other"])
def pair(request, chat_folder) -> edgespec.Pair:
    """fp32 products of ONNX Runtime share no calls."""
    shared = request.param == "shared calls"
    if shared and installed_kernels() is None:
        pytest.skip("needs kernels")
    pair = edgespec.load(chat_folder, threads=1, target_format="int8" if shared else "fp32")
    assert pair.shares_calls == shared
    return pair


async def freed(many):
    """Waits until all caches are free."""
    while many.batch.free != many.batch.capacity:
        await asyncio.sleep(0.001)
    assert (many.running, many.waiting) == (0, 0)


def test_results_come_in_the_order_of_the_prompts(pair):
    async def made():
        return [result async for result in pair.agenerate_many(PROMPTS, texts=4, **LENGTH)]

    texts = [result.text for result in asyncio.run(made())]
    assert texts == [pair.generate(prompt, **LENGTH).text for prompt in PROMPTS]


def test_a_prompt_that_takes_long_to_encode_holds_up_no_other_text(pair, monkeypatch):
    encoded, encoding = Batch.encoded, threading.Event()
    ended = threading.Event()

    def slowly(batch, prompt, options):
        if prompt == "long":
            encoding.set()
            assert ended.wait(60)
        return encoded(batch, prompt, options)

    monkeypatch.setattr(Batch, "encoded", slowly)

    async def made():
        async with pair.amany(4) as many:
            long = asyncio.create_task(many.generate("long", **LENGTH))
            await asyncio.to_thread(encoding.wait, 60)
            short = await many.generate("short", **LENGTH) if many.batch.capacity > 1 else None
            ended.set()
            return short, await long

    short, long = asyncio.run(made())
    assert long.text == pair.generate("long", **LENGTH).text
    assert short is None or short.text == pair.generate("short", **LENGTH).text


def test_samples_are_drawn_with_following_seeds(pair):
    options = {"temperature": 1.0, "seed": 5, **LENGTH}

    async def made():
        async with pair.amany(4) as many:
            streams = many.sample_streams("Once", 6, **options)
            texts = [""] * 6
            async for number, chunk in interleaved(streams):
                texts[number] += chunk.text if chunk else "."
            return texts, [stream.result for stream in streams]

    texts, results = asyncio.run(made())
    assert [result.seed for result in results] == [5, 6, 7, 8, 9, 10]
    alone = [pair.generate("Once", **options | {"seed": 5 + number}).text for number in range(6)]
    assert [result.text for result in results] == alone
    assert texts == [text + "." for text in alone]
    assert len(set(texts)) > 1


def test_coroutines_stream_at_once_and_the_loop_goes_on(pair):
    async def read(many, prompt):
        return "".join([chunk.text async for chunk in many.stream(prompt, **LENGTH)])

    async def made():
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        ticking = asyncio.create_task(tick())
        async with pair.amany(3) as many:
            texts = await asyncio.gather(*(read(many, prompt) for prompt in PROMPTS))
            await freed(many)
            ticking.cancel()
            return texts, ticks, many.tokens

    texts, ticks, tokens = asyncio.run(made())
    expected = [pair.generate(prompt, **LENGTH) for prompt in PROMPTS]
    assert texts == [result.text for result in expected]
    assert tokens == sum(len(result.token_ids) for result in expected)
    assert ticks > len(PROMPTS)


def test_the_event_loops_thread_computes_nothing(pair, monkeypatch):
    threads = set()

    def observed(function):
        def called(*given, **options):
            threads.add(threading.get_ident())
            return function(*given, **options)

        return called

    for name in ("stream", "step"):
        monkeypatch.setattr(Batch, name, observed(getattr(Batch, name)))

    async def made():
        async with pair.amany(2) as many:
            await asyncio.gather(*(many.generate(prompt, **LENGTH) for prompt in PROMPTS))
        return threading.get_ident()

    assert asyncio.run(made()) not in threads
    assert len(threads) == 1


# --- texts that nobody waits for -----------------------------------------------------------------


async def cancelled(many):
    async def read():
        async for _ in many.stream("Once", **LONG):
            pass

    reading = asyncio.create_task(read())
    while not many.tokens:
        await asyncio.sleep(0.001)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading


async def timed_out(many):
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(many.generate("Once", **LONG), 0.02)


async def left_in_the_middle(many):
    async with many.stream("Once", **LONG) as stream:
        async for _ in stream:
            break


async def forgotten(many):
    await anext(many.stream("Once", **LONG))
    gc.collect()


async def cancelled_before_it_begins(many):
    task = asyncio.create_task(many.generate("Once", **LONG))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])


async def samples_cancelled_while_some_wait(many):
    async with aclosing(many.samples("Once", 9, **LONG)) as chunks:
        await anext(chunks)


@pytest.mark.parametrize(
    "leave",
    [
        cancelled,
        timed_out,
        left_in_the_middle,
        forgotten,
        cancelled_before_it_begins,
        samples_cancelled_while_some_wait,
    ],
)
def test_its_cache_is_free_again(pair, leave):
    async def scenario():
        async with pair.amany(2) as many:
            await leave(many)
            await freed(many)
            return await many.generate("Once", **LENGTH)

    assert asyncio.run(scenario()).text == pair.generate("Once", **LENGTH).text


def test_a_cancelled_waiter_leaves_the_queue(pair):
    async def scenario():
        async with pair.amany(1) as many, many.stream("Once", **LONG) as stream:
            await anext(stream)
            assert many.is_full
            waiting = asyncio.create_task(many.generate("Twice", **LENGTH))
            await asyncio.sleep(0)
            assert many.waiting == 1
            waiting.cancel()
            await asyncio.wait([waiting])
            assert many.waiting == 0

    asyncio.run(scenario())


# --- errors --------------------------------------------------------------------------------------


def test_a_text_that_cannot_be_made_is_an_error_of_its_own_task(pair):
    async def scenario():
        async with pair.amany(2) as many:
            wrong = (many.generate("Once", temperature=-1), many.generate("x" * 2000))
            good = many.generate("Once", **LENGTH)
            *errors, result = await asyncio.gather(*wrong, good, return_exceptions=True)
            await freed(many)
            return [type(error) for error in errors], result.text

    kinds, text = asyncio.run(scenario())
    assert kinds == [edgespec.UsageError] * 2
    assert text == pair.generate("Once", **LENGTH).text


def test_an_unexpected_error_ends_the_texts_and_not_the_thread(pair, monkeypatch):
    async def scenario():
        async with pair.amany(2) as many:
            with monkeypatch.context() as patch:
                patch.setattr(Batch, "step", lambda self: 1 // 0)
                with pytest.raises(ZeroDivisionError):
                    await many.generate("Once", **LENGTH)
            await freed(many)
            return await many.generate("Once", **LENGTH)

    assert asyncio.run(scenario()).text == pair.generate("Once", **LENGTH).text


def test_closing_ends_what_is_being_made(pair):
    async def scenario():
        many = pair.amany(1)
        making = asyncio.create_task(many.generate("Once", **LONG))
        while not many.tokens:
            await asyncio.sleep(0.001)
        await many.aclose()
        with pytest.raises(EdgespecError, match="the texts were closed before this one ended"):
            await making
        with pytest.raises(edgespec.UsageError, match="these texts were closed"):
            await many.generate("Once", **LENGTH)

    asyncio.run(scenario())
    assert pair.generate("Once", **LENGTH).text


def test_a_result_before_the_beginning_and_no_texts_are_refused(pair):
    async def scenario():
        async with pair.amany(1) as many:
            with pytest.raises(edgespec.UsageError, match="take its first chunk"):
                _ = many.stream("Once").result
            with pytest.raises(edgespec.UsageError, match="n is 0"):
                many.samples("Once", 0)
            with pytest.raises(edgespec.UsageError, match="n is 0"):
                await anext(many.results(["Once"], n=0))

    asyncio.run(scenario())
