"""Claim: a pair makes one text at a time, and those who may wait get their turn: threads where it
was loaded so, coroutines always."""

from __future__ import annotations

import asyncio
import gc
import inspect
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import edgespec
from edgespec.pair.generation_options import BEAM_DEFAULTS, DEFAULTS
from edgespec.speech.transcription_options import TRANSCRIPTION_DEFAULTS

LENGTH = {"max_new_tokens": 12}
PROMPTS = [f"prompt {number}" for number in range(6)]


@pytest.fixture(scope="module")
def alone(tiny):
    return [tiny.generate(prompt, **LENGTH).token_ids for prompt in PROMPTS]


# --- threads --------------------------------------------------------------------------------------


def test_threads_wait_for_their_turn_if_asked(tiny_folder, alone):
    pair = edgespec.load(tiny_folder, threads=1, wait=True)
    with ThreadPoolExecutor(6) as pool:
        texts = pool.map(lambda prompt: pair.generate(prompt, **LENGTH).token_ids, PROMPTS)
        assert list(texts) == alone


def test_a_thread_waits_until_a_text_that_was_left_is_closed(tiny_folder, alone):
    pair = edgespec.load(tiny_folder, threads=1, wait=True)
    left = pair.stream(PROMPTS[0], **LENGTH)
    next(left)
    begun = threading.Event()

    def other():
        begun.set()
        return pair.generate(PROMPTS[1], **LENGTH).token_ids

    with ThreadPoolExecutor(1) as pool:
        text = pool.submit(other)
        begun.wait()
        assert not text.done()
        left.close()
        assert text.result() == alone[1]


def test_a_thread_that_would_wait_for_itself_is_refused(tiny_folder):
    pair = edgespec.load(tiny_folder, threads=1, wait=True)
    with pair.stream(PROMPTS[0], **LENGTH) as stream:
        next(stream)
        with pytest.raises(edgespec.UsageError, match="finish or close that stream first"):
            pair.generate(PROMPTS[1], **LENGTH)
    assert pair.generate(PROMPTS[1], **LENGTH).token_ids


def test_others_are_refused_unless_asked_and_told_how(tiny):
    with tiny.stream(PROMPTS[0], **LENGTH) as stream, ThreadPoolExecutor(1) as pool:
        next(stream)
        with pytest.raises(edgespec.UsageError, match="wait=True lets other threads wait"):
            pool.submit(tiny.generate, PROMPTS[1], **LENGTH).result()


# --- coroutines -----------------------------------------------------------------------------------


def test_coroutines_get_the_texts_that_generate_makes(tiny, alone):
    async def all_of_them():
        return await asyncio.gather(*(tiny.agenerate(prompt, **LENGTH) for prompt in PROMPTS))

    for _ in range(2):  # also of another event loop
        assert [made.token_ids for made in asyncio.run(all_of_them())] == alone


def test_a_stream_has_its_chunks_and_the_event_loop_goes_on(tiny, alone):
    async def read():
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        ticking = asyncio.create_task(tick())
        stream = tiny.astream(PROMPTS[0], **LENGTH)
        chunks = [chunk async for chunk in stream]
        ticking.cancel()
        assert [chunk.token for chunk in chunks if chunk.token is not None] == alone[0]
        assert "".join(chunk.text for chunk in chunks) == stream.result.text
        assert ticks > len(chunks)

    asyncio.run(read())


def test_a_text_that_is_cancelled_or_left_lets_the_next_one_begin(tiny, alone):
    async def scenario():
        left = tiny.astream(PROMPTS[0], ignore_eos=True)
        await anext(left)
        waiting = asyncio.create_task(tiny.agenerate(PROMPTS[1], **LENGTH))
        cancelled = asyncio.create_task(tiny.agenerate(PROMPTS[2], **LENGTH))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        cancelled.cancel()
        await left.aclose()
        assert (await waiting).token_ids == alone[1]
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        dropped = tiny.astream(PROMPTS[0], ignore_eos=True)
        await anext(dropped)
        del dropped
        gc.collect()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(tiny.agenerate(PROMPTS[0], ignore_eos=True), 1e-4)
        return (await tiny.agenerate(PROMPTS[3], **LENGTH)).token_ids

    assert asyncio.run(scenario()) == alone[3]
    assert tiny.generate(PROMPTS[4], **LENGTH).token_ids == alone[4]


def test_errors_come_where_a_text_is_awaited(tiny):
    async def wrong(**options):
        return await tiny.agenerate("x", **options)

    with pytest.raises(edgespec.UsageError, match="temperature"):
        asyncio.run(wrong(temperature=-1))
    with pytest.raises(TypeError, match="did you mean 'temperature'"):
        asyncio.run(wrong(temprature=1))
    assert tiny.generate("x", max_new_tokens=2).token_ids


def test_help_shows_every_option():
    texts = ("generate", "stream", "agenerate", "astream", "generate_many", "agenerate_many")
    options = dict.fromkeys(texts, DEFAULTS) | {"beam_search": BEAM_DEFAULTS}
    options |= dict.fromkeys(("transcribe", "stream_transcript"), TRANSCRIPTION_DEFAULTS)
    for method, defaults in options.items():
        shown = inspect.signature(getattr(edgespec.Pair, method)).parameters
        assert list(shown)[-len(defaults) :] == list(defaults)
        assert {shown[name].default for name in ("draft", "chat") if name in shown} <= {True, None}
        assert all(isinstance(parameter.annotation, str) for parameter in list(shown.values())[1:])


def test_an_option_that_beam_search_lacks_is_not_passed_over(tiny):
    with pytest.raises(TypeError, match="did you mean 'max_new_tokens'"):
        tiny.beam_search("x", max_new_token=3)
    for option in ({"temperature": 1.0}, {"stop": "x"}, {"seed": 1}):
        with pytest.raises(TypeError, match="beam search has no option"):
            tiny.beam_search("x", **option)
