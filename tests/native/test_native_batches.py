"""Claim: texts that share calls are those alone and Python's, whoever joins and leaves."""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import random
import shutil
import threading
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

import shared_encoder_checkpoints
from chat_corpus import user
from checkpoints import byte_tokenizer, write_noisy, write_t5
from depth import deep
from eagle_checkpoints import write_eagle, write_target
from edgespec.artifact.manifest import manifest_digest
from edgespec.costs.cost_model import Costs
from edgespec.drafters.registry import costs_by_name
from edgespec.scheduler.load_costs import CallTimes, Load, LoadCosts
from edgespec.scheduler.shared_calls import ROWS
from edgespec_export.export_pair import export_pair
from native_library import NativeBatch, NativeError, NativeModel, Piece

INT8 = {"target_formats": ["int8"], "draft_formats": ["int8"]}
SECONDS = 600  # of a test, at most
WAYS = (
    {"draft": 0},
    {"draft": 1, "gamma": 3},
    {"draft": 2, "gamma": 4, "repetition_penalty": 1.2},
    {"draft": 0, "temperature": 1.0, "logprobs": 1},
    {"draft": 1, "gamma": 2, "temperature": 1.0},
    {"draft": 1, "gamma": 5, "temperature": 0.8, "top_p": 0.9, "rule": "token"},
    {"draft": 1, "gamma": 3, "temperature": 1.3, "rule": "block", "stop_tokens": [9]},
    {"draft": 1, "gamma": -1, "logprobs": 1},
    {"draft": 1, "gamma": -1, "temperature": 0.7, "ignore_eos": 1},
    {"draft": 3, "gamma": 4, "temperature": 0.7, "ignore_eos": 1},
    {"draft": 3, "gamma": -1, "temperature": 0.9, "rule": "token"},
    {},
)


def prompts(count, seed=0, vocabulary=270, longest=80):
    """Of 1 to `longest` tokens; some begin alike."""
    numbers = random.Random(seed)
    begin = [numbers.randrange(3, vocabulary) for _ in range(30)]
    made = []
    for number in range(count):
        own = [numbers.randrange(3, vocabulary) for _ in range(numbers.randint(1, longest - 30))]
        made.append([*begin, *own] if number % 3 else own)
    return made


def alone(session, prompt, given):
    """A text of a session: its tokens, end, log-probabilities and characters."""
    tokens = session.text(prompt, **given)
    return tokens, session.ending, session.logprobs, session.shown


def together(text):
    """The same of a text of a batch."""
    assert text.error is None, text.error
    return text.tokens, text.ending, text.logprobs, text.shown


@pytest.fixture(autouse=True)
def time_limit(capfd):
    """Fails, where a call of the library does not return, by ending the tests: no thread of
    Python's could interrupt it."""
    with capfd.disabled():
        stderr = os.dup(2)
    faulthandler.dump_traceback_later(SECONDS, exit=True, file=stderr)
    yield
    faulthandler.cancel_dump_traceback_later()
    os.close(stderr)


@pytest.fixture(scope="module")
def model(built, int8_folder):
    return NativeModel(int8_folder, threads=1)


@pytest.fixture(scope="module")
def session(model):
    return model.session()


@pytest.fixture(scope="module")
def translator(built, tmp_path_factory):
    """An encoder-decoder with a draft model."""
    folder = tmp_path_factory.mktemp("translator")
    shape = {"vocab_size": 272, "heads": 2, "head_size": 16, "width": 32, "inner": 64}
    target = write_t5(folder / "target", tokenizer=byte_tokenizer(272), **shape)
    draft = write_noisy(target, folder / "draft", noise=0.05)
    export_pair(str(target), str(draft), folder / "pair", threads=1, **INT8)
    return NativeModel(folder / "pair", threads=1)


@pytest.fixture(scope="module", params=["llama", "t5"])
def with_eagle(built, request, tmp_path_factory):
    """A target and its untrained EAGLE head, which has 120 of its 272 tokens."""
    folder = tmp_path_factory.mktemp("eagle")
    write = shared_encoder_checkpoints.write_target
    if request.param == "llama":
        write = partial(write_target, kind="llama")
    target = write(folder / "target")
    write_eagle(target, folder / "draft", tokens=120)
    export_pair(str(target), str(folder / "draft"), folder / "pair", threads=1, **INT8)
    return NativeModel(folder / "pair", threads=1)


@pytest.fixture
def own_int8(int8_folder, tmp_path):
    """A copy of the tiny pair in int8, to be changed."""
    return Path(shutil.copytree(int8_folder, tmp_path / "pair"))


@pytest.mark.parametrize("given", WAYS)
def test_texts_of_a_batch_are_those_alone(model, session, given):
    batch, options = model.batch(4), {"max_new_tokens": 24, **given}
    for turn in range(2):  # the second begins with what the caches hold
        for seed, prompt in enumerate(prompts(4, turn)):
            batch.add(prompt, seed=seed, **options)
        batch.finish()
    for number, text in batch.made.items():
        turn, seed = divmod(number, 4)
        prompt = prompts(4, turn)[seed]
        assert together(text) == alone(session, prompt, {**options, "seed": seed})
        assert text.seed == seed


@pytest.mark.parametrize("given", [WAYS[1], WAYS[4], WAYS[5], {**WAYS[5], "rule": "block"}])
def test_texts_of_a_batch_are_those_of_pythons(model, int8_pair, given):
    batch, several = model.batch(6), prompts(6, seed=5)
    for seed, prompt in enumerate(several):
        batch.add(prompt, seed=seed, max_new_tokens=24, **given)
    batch.finish()
    options = {**given, "draft": "model", "max_new_tokens": 24, "seed": 0}
    expected = list(int8_pair.generate_many(several, texts=6, **options))
    for text, python in zip(batch.made.values(), expected, strict=True):
        assert (text.tokens, text.ending) == (python.token_ids, python.finish_reason)


def a_request(numbers):
    """A prompt and options at random."""
    given = {**numbers.choice(WAYS), "seed": numbers.randrange(1000)}
    return numbers.choice(prompts(12, seed=3)), {"max_new_tokens": numbers.randint(0, 30), **given}


@pytest.mark.parametrize("count", [40, pytest.param(1500, marks=deep)])
def test_texts_join_and_leave_at_any_moment(model, session, count):
    numbers, batch = random.Random(count), model.batch(3)
    requests, cancelled, added = {}, set(), 0
    while True:
        live = [n for n, text in batch.made.items() if not (text.ending or text.error)]
        if added < count and len(live) < 3 and numbers.random() < 0.5:
            prompt, given = a_request(numbers)
            requests[batch.add(prompt, **given)] = prompt, given
            added += 1
        elif live and numbers.random() < 0.05:
            cancelled.add(chosen := numbers.choice(live))
            batch.cancel(chosen)
        elif batch.next() is None:
            assert not live
            if added == count:
                break
    assert len(requests) == count
    for number, (prompt, given) in requests.items():
        text = batch.made[number]
        if text.error is not None:
            assert (text.error.status, number in cancelled) == ("cancelled", True)
            assert alone(session, prompt, given)[0][: len(text.tokens)] == text.tokens
        else:
            assert together(text) == alone(session, prompt, given)
    assert sum(text.error is not None for text in batch.made.values()) > count / 40


@pytest.mark.parametrize("given", [{"gamma": 3}, {"gamma": 2, "temperature": 1.0}, {"draft": 0}])
def test_translations_of_a_batch_are_those_alone(translator, given):
    sources = ["the library is new and fast", "Open the file", "game", "the library is new"]
    batch, session = translator.batch(3), translator.session()
    waiting = [*sources, sources[0], sources[0]]
    for seed, source in enumerate(waiting):
        if seed >= 3:
            while len([1 for text in batch.made.values() if not text.ending]) == 3:
                assert batch.next() is not None
        batch.add(source, seed=seed, max_new_tokens=16, **given)
    batch.finish()
    for seed, source in enumerate(waiting):
        options = {"seed": seed, "max_new_tokens": 16, **given}
        assert together(batch.made[seed]) == alone(session, source, options)


@pytest.mark.parametrize("given", [{}, {"temperature": 1.0, "rule": "block"}, {"temperature": 1.0}])
def test_texts_with_an_eagle_head_are_those_alone(with_eagle, given):
    batch, session = with_eagle.batch(3), with_eagle.session()
    options = {"gamma": 4, "max_new_tokens": 20, **given}
    several = prompts(6, seed=8, vocabulary=200, longest=60)
    for turn in (several[:3], several[3:]):
        for seed, prompt in enumerate(turn):
            batch.add(prompt, seed=seed, **options)
        batch.finish()
    for number, text in batch.made.items():
        expected = alone(session, several[number], {**options, "seed": number % 3})
        assert together(text) == expected


def test_chats_end_at_their_stop_strings(chat_folder, built):
    model = NativeModel(chat_folder, threads=1, target_format="int8")
    batch, session = model.batch(3), model.session()
    messages = [[user(text)] for text in ("Hi", "What is a lighthouse?", "Hi there")]
    options = {"max_new_tokens": 40, "temperature": 1.0, "gamma": 3, "seed": 4, "ignore_eos": 1}
    whole = [alone(session, one, options)[3] for one in messages]
    stops = [[text[len(text) // 2 :][:2]] for text in whole]
    for one, stop in zip(messages, stops, strict=True):
        batch.add(one, stop=stop, **options)
    batch.finish()
    for text, one, stop in zip(batch.made.values(), messages, stops, strict=True):
        assert together(text) == alone(session, one, {**options, "stop": stop})
        assert text.ending == "stop"


def test_texts_end_where_their_cache_is_full(model, session):
    batch, options = model.batch(2), {"ignore_eos": 1, "gamma": 4}
    for prompt in prompts(2, seed=9):
        batch.add(prompt, **options)
    batch.finish()
    for text, prompt in zip(batch.made.values(), prompts(2, seed=9), strict=True):
        assert text.ending == "capacity"
        assert together(text) == alone(session, prompt, options)


def test_prompts_that_begin_alike_are_read_once(model):
    """What another text has read, or is about to read, is copied."""
    batch, long = model.batch(3), prompts(1, seed=1, longest=90)[0] * 3
    long = (long * 90)[:88]
    first = batch.add(long, max_new_tokens=2)
    second = batch.add([*long[:80], 5, 6], max_new_tokens=2)
    assert batch.progress(first) == (0, 0)
    batch.next()
    batch.next()
    assert batch.progress(first) in ((87, 87), (0, 0))
    read = max(batch.progress(second)[1], 0)
    batch.finish()
    assert 0 < read <= 81 - 64 or batch.made[second].ending
    third = batch.add([*long[:80], 7], max_new_tokens=8, ignore_eos=1)
    while not batch.made[third].tokens:
        batch.next()
    assert batch.progress(third) == (0, 0)


def test_what_a_batch_refuses(model):
    batch = model.batch(2)
    for texts in (0, 5000):
        with pytest.raises(NativeError, match=rf"texts is {texts}; give a whole number from 1 to"):
            model.batch(texts)
    for prompt, given, sentence in (
        ([], {}, "the prompt is empty; give at least one token"),
        ([5] * 97, {}, "the prompt has 97 tokens and the cache holds 96; shorten the prompt"),
        ([5, 999], {}, "token 999 is outside the model's 272 tokens"),
        ([5], {"gamma": 17}, "gamma is 17; this target was found exact for at most 16"),
        ([5], {"temperature": -1.0}, "temperature is -1"),
    ):
        with pytest.raises(NativeError, match=sentence) as refused:
            batch.add(prompt, **given)
        assert refused.value.status == "usage"
    assert batch.next() is None
    first, second = batch.add([5, 6], max_new_tokens=9), batch.add([7, 8], max_new_tokens=9)
    with pytest.raises(NativeError, match=r"2 texts are being made, as many as there are caches"):
        batch.add([5])
    batch.cancel(first)
    batch.cancel(99)
    batch.cancel(-1)
    assert batch.next() == first
    assert batch.made[first].error.status == "cancelled"
    batch.add([5], max_new_tokens=3)
    batch.finish()
    assert len(batch.made[second].tokens) == 9 or batch.made[second].ending == "eos"
    batch.cancel(second)  # it has ended
    assert batch.next() is None


def test_a_row_without_a_token_ends_its_text_alone(model, session):
    """A penalty makes the logits of the prompt's tokens infinite."""
    batch, bad = model.batch(2), {"repetition_penalty": 1e-300, "draft": 0}
    with pytest.raises(NativeError, match="logit") as refused:
        session.text([5, 6, 7], **bad)
    worse, good = batch.add([5, 6, 7], **bad), batch.add([5, 6, 7], max_new_tokens=12)
    batch.finish()
    assert str(batch.made[worse].error) == str(refused.value)
    assert batch.made[worse].error.status == "error"
    assert together(batch.made[good]) == alone(session, [5, 6, 7], {"max_new_tokens": 12})


def test_closed_batches_are_errors(int8_folder, built):
    model = NativeModel(int8_folder, threads=1)
    batch, other = model.batch(2), model.batch(1)
    library, handle, number = model.library, batch.handle, ctypes.c_int64()
    model.close()
    kept = other.add([5, 6], max_new_tokens=5)  # it goes on without the model's handle
    batch.add([5, 6])
    batch.close()
    library.edgespec_close_batch(handle)
    library.edgespec_batch_cancel(handle, 0)
    piece = Piece(size=ctypes.sizeof(Piece))
    calls = (
        lambda: library.edgespec_batch_next(handle, ctypes.byref(number), ctypes.byref(piece)),
        lambda: library.edgespec_batch_progress(
            handle, ctypes.c_int64(0), ctypes.byref(number), ctypes.byref(number)
        ),
    )
    for call in calls:
        assert call() == 2
        assert library.edgespec_message() == b"the batch is not open; open another"
    assert library.edgespec_batch_next(other.handle, None, ctypes.byref(piece)) == 2
    assert library.edgespec_message() == b"text is NULL; give an address"
    other.finish()
    assert other.made[kept].ending


def patiently(call):
    """The result of a call, again where another thread used the batch for a moment."""
    while True:
        try:
            return call()
        except NativeError as error:
            if "another thread is using this batch" not in str(error):
                raise


def test_another_thread_may_cancel_and_ask_but_not_take(model, session):
    batch, refused, done = model.batch(3), [], threading.Event()
    expected = alone(session, [5, 6, 7], {"ignore_eos": 1})
    other = NativeBatch(model, 1)
    other.handle = batch.handle

    def disturb():
        while not done.is_set():
            with suppress(NativeError):
                batch.progress(added)
            batch.cancel(added + 1)
            try:
                other.add([])
            except NativeError as error:
                refused.append(str(error))

    added, cancelled = 0, 0
    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        for _ in range(30):
            for _ in range(3):
                patiently(lambda: batch.add([5, 6, 7], ignore_eos=1))
            while patiently(batch.next) is not None:
                pass
            assert together(batch.made[added]) == together(batch.made[added + 2]) == expected
            taken_out = batch.made[added + 1]
            if taken_out.error is None:  # it was faster
                assert together(taken_out) == expected
            else:
                assert taken_out.error.status == "cancelled"
                cancelled += 1
            added += 3
    finally:
        done.set()
        thread.join()
    assert cancelled
    assert any("another thread is using this batch" in one for one in refused)


def changed(folder, **values):
    """Changes what the manifest says of the target's first variant."""
    path = folder / "edgespec.json"
    data = json.loads(path.read_text())
    variant = next(iter(data["target"]["variants"].values()))
    variant.update(values)
    data["digest"] = manifest_digest(data)
    path.write_text(json.dumps(data))
    return variant


def test_texts_that_might_differ_share_no_calls(own_int8, built):
    before = changed(own_int8)
    kept = own_int8 / "row_invariance.json"
    for values, sentence in (
        ({"run_by_kernels": False}, "is not computed by edgespec's kernels alone, so texts that"),
        ({"row_invariance": None}, "texts that share calls of this target were found to differ"),
    ):
        changed(own_int8, **before)
        changed(own_int8, **values)
        kept.unlink(missing_ok=True)
        model = NativeModel(own_int8, threads=1, allow_inexact=int("row_invariance" in values))
        with pytest.raises(NativeError, match=sentence) as refused:
            model.batch(2)
        assert refused.value.status == "error"


def test_shared_calls_are_measured_where_nobody_has(own_int8, built):
    changed(own_int8, row_invariance=None)
    kept = own_int8 / "row_invariance.json"
    kept.unlink(missing_ok=True)
    batch = NativeModel(own_int8, threads=1).batch(2)
    (entry,) = json.loads(kept.read_text())
    assert entry["row_invariance"]["texts"] is True
    batch.add([5, 6])
    batch.finish()
    entry["row_invariance"]["texts"] = False
    kept.write_text(json.dumps([entry]))
    with pytest.raises(NativeError, match="were found to differ from those alone"):
        NativeModel(own_int8, threads=1).batch(2)


def test_costs_of_shared_calls_are_pythons(hooks):
    """Costs of rounds as texts come and go and calls are timed."""
    numbers, calls = random.Random(1), 400
    guess = Costs([1 + 0.05 * n for n in range(17)], 0.2)
    for has_draft in (False, True):
        times = CallTimes(costs_by_name(replace(guess, draft=0.2 * has_draft)))
        load = Load(times)
        costs = LoadCosts(load, 16, uses_model=has_draft)
        verify = (ctypes.c_double * ROWS)(*guess.up_to(ROWS - 1).verify)
        kinds = [numbers.choice((0, 0, 1, 2, 3)) for _ in range(calls)]
        rows = [numbers.randrange(1, 60) for _ in range(calls)]
        seconds = [numbers.uniform(0.5, 1.5) * (1 + 0.1 * one) * 1e-3 for one in rows]
        lives = [numbers.randrange(1, 9) for _ in range(calls)]
        found = (ctypes.c_double * (18 * calls))()
        hooks.edgespec_hook_load_costs(
            verify,
            ctypes.c_double(0.2 * has_draft),
            ctypes.c_int64(calls),
            (ctypes.c_int64 * calls)(*kinds),
            (ctypes.c_int64 * calls)(*rows),
            (ctypes.c_double * calls)(*seconds),
            (ctypes.c_int64 * calls)(*lives),
            found,
        )
        for index in range(calls):
            kind, count, taken = kinds[index], rows[index], seconds[index]
            if kind < 2:
                times.add(count, taken, is_draft=bool(kind))
            elif kind == 2:
                times.add_draft_reading(taken, prompts=count % 2)
            else:
                times.add_sequence(count)
            load.live = lives[index]
            now = costs.now()
            expected = [*now.verify, now.draft]
            assert found[18 * index : 18 * index + 18] == pytest.approx(expected, rel=1e-12)
