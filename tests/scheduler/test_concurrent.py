"""Claim: a text that is made beside others is, bit by bit, the text that it would be alone.

With kernels, on random int8 models, one with a draft model and two with EAGLE drafts, which read
their target's hidden states: texts, log-probabilities and seeds, whatever the others are, whenever
they come and go.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import edgespec
import shared_encoder_checkpoints
from checkpoints import byte_tokenizer, write_noisy, write_t5
from depth import one_in
from eagle_checkpoints import write_eagle, write_target
from edgespec.device.kernels import installed_kernels
from edgespec.errors import EdgespecError
from edgespec_export.export_pair import export_pair
from edgespec_runtimes.ort.ort_encoder import OrtEncoder

needs_kernels = pytest.mark.skipif(installed_kernels() is None, reason="needs kernels")

WAYS = {
    "greedy": {},
    "plain": {"draft": False},
    "a fixed γ": {"draft": "model", "gamma": 3},
    "lookup": {"draft": "lookup"},
    "sampled": {"temperature": 0.9, "top_p": 0.9, "seed": 5},
    "token rule": {"temperature": 0.9, "seed": 6, "rule": "token", "gamma": 2},
    "block rule, γ auto": {"temperature": 0.8, "seed": 7, "rule": "block"},
    "log-probabilities": {"logprobs": True, "top_logprobs": 2},
    "penalties": {"repetition_penalty": 1.3, "frequency_penalty": 0.5},
}
LONG = "Once upon a time there was a small model that read many prompts at once. " * 4


@pytest.fixture(scope="module")
def eagle_folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("eagle")
    target = write_target(folder / "target", "llama", max_position_embeddings=1024)
    write_eagle(target, folder / "draft")
    formats = {"target_formats": ["int8"], "draft_formats": ["int8"]}
    export_pair(str(target), str(folder / "draft"), folder / "pair", **formats)
    return folder / "pair"


@pytest.fixture(scope="module")
def t5_eagle_folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("t5-eagle")
    target = shared_encoder_checkpoints.write_target(folder / "target")
    write_eagle(target, folder / "draft")
    formats = {"target_formats": ["int8"], "draft_formats": ["int8"]}
    export_pair(str(target), str(folder / "draft"), folder / "pair", **formats)
    return folder / "pair"


@pytest.fixture(scope="module")
def translator(tmp_path_factory) -> edgespec.Pair:
    """An encoder-decoder with a draft model."""
    folder = tmp_path_factory.mktemp("translator")
    shape = {"vocab_size": 272, "heads": 2, "head_size": 16, "width": 32, "inner": 64}
    target = write_t5(folder / "target", tokenizer=byte_tokenizer(272), **shape)
    draft = write_noisy(target, folder / "draft", noise=0.05)
    formats = {"target_formats": ["int8"], "draft_formats": ["int8"]}
    export_pair(str(target), str(draft), folder / "pair", **formats)
    return edgespec.load(folder / "pair", threads=1)


@pytest.fixture(scope="module", params=["chat_folder", "eagle_folder", "t5_eagle_folder"])
def shared(request) -> edgespec.Pair:
    folder = request.getfixturevalue(request.param)
    pair = edgespec.load(folder, threads=1, target_format="int8")
    assert pair.shares_calls == (installed_kernels() is not None)
    return pair


def requests(count, seed=0):
    """Prompts of mixed lengths, and a way to continue each."""
    choose = random.Random(seed)
    ways = list(WAYS.values())
    for number in range(count):
        text = f"{number}: {LONG[: choose.randrange(1, len(LONG))]}"
        yield text, {"max_new_tokens": choose.randrange(1, 24), **ways[number % len(ways)]}


def same(one, other):
    return (
        one.text == other.text
        and one.token_ids == other.token_ids
        and one.logprobs == other.logprobs
        and one.top_logprobs == other.top_logprobs
        and one.finish_reason == other.finish_reason
    )


@one_in(2)
@needs_kernels
@pytest.mark.parametrize("way", WAYS)
def test_results_are_those_of_single_texts(shared, way):
    prompts = [text for text, _ in requests(7)]
    options = {"max_new_tokens": 16, **WAYS[way]}
    together = list(shared.generate_many(prompts, texts=4, **options))
    for number, (prompt, result) in enumerate(zip(prompts, together, strict=True)):
        if "seed" in options:
            options["seed"] = WAYS[way]["seed"] + number
            assert result.seed == options["seed"]
        assert same(result, shared.generate(prompt, **options))


@one_in(2)
@needs_kernels
@pytest.mark.parametrize("texts", [2, 5, 16])
def test_texts_come_and_go_and_others_keep_theirs(shared, texts):
    """Random arrivals, other people's options, and texts that are closed in the middle."""
    choose = random.Random(texts)
    many = shared.many(texts)
    waiting = list(requests(30, seed=texts))
    running, ended = [], []
    while waiting or running:
        while waiting and many.free and choose.random() < 0.6:
            prompt, options = waiting.pop()
            running.append((prompt, options, many.stream(prompt, **options)))
        many.step()
        for request in list(running):
            prompt, options, stream = request
            stream.ready()
            if stream.ended:
                ended.append((prompt, options, stream.result))
                running.remove(request)
            elif choose.random() < 0.01:
                stream.close()
                running.remove(request)
    assert many.free == texts
    assert len(ended) > 10
    for prompt, options, result in ended:
        seeded = {**options, "seed": result.seed} if "temperature" in options else options
        assert same(result, shared.generate(prompt, **seeded))


@needs_kernels
def test_drafts_of_several_texts_share_calls(shared):
    """A round drafts two tokens, with one call each, whatever the number of texts."""
    many = shared.many(4)
    options = {"max_new_tokens": 12, "draft": "model", "gamma": 2, "ignore_eos": True}
    options["chat"] = False
    results = [result for _, result in many.results([LONG[:40]] * 4, **options)]
    rounds = max(result.stats.target_calls for result in results)
    assert sum(result.stats.drafted for result in results) > 40
    assert many.drafts.calls <= 2 * rounds + 4  # copies of the prompt come a call later
    assert many.drafts.rows > 2 * many.drafts.calls


@needs_kernels
def test_samples_of_a_prompt_read_it_once(shared):
    many = shared.many(4)
    options = {"temperature": 1.0, "seed": 3, "max_new_tokens": 5, "draft": False}
    results = list(many.results([LONG], n=4, **options))
    prompt = len(shared.encode(LONG)) - 1
    assert many.target.rows < 2 * prompt
    for number, result in results:
        assert same(result, shared.generate(LONG, **(options | {"seed": 3 + number})))


@needs_kernels
def test_texts_of_equal_sources_run_the_encoder_once(translator, monkeypatch):
    encoded: list[int] = []
    encode = OrtEncoder.encode
    monkeypatch.setattr(
        OrtEncoder,
        "encode",
        lambda self, inputs: encoded.append(len(inputs["tokens"].numpy())) or encode(self, inputs),
    )
    options = {"temperature": 1.0, "seed": 3, "max_new_tokens": 9, "draft": "model", "gamma": 2}
    sources = ["one", "the other", "one", "a third source"]
    results = dict(translator.many(4).results(sources, n=2, **options))
    each = [len(translator.encode(source)) for source in dict.fromkeys(sources)]
    assert sorted(encoded) == sorted(2 * each)  # by the target and by the draft
    for number, source in enumerate(source for source in sources for _ in range(2)):
        alone = translator.generate(source, **(options | {"seed": 3 + number}))
        assert same(results[number], alone)


@needs_kernels
def test_texts_begin_after_one_that_was_closed_before_its_first_token(shared):
    """It leaves a prompt in its cache that was not computed, since another text was drafting."""
    options = {"max_new_tokens": 16, "draft": "model", "gamma": 3, "ignore_eos": True}
    many = shared.many(2)
    drafting = many.stream("another", **options)
    for _ in range(6):
        many.step()
        many.stream(LONG[:40], max_new_tokens=4).close()
        left = many.stream(LONG[:40], max_new_tokens=4)
        many.step()
        left.close()
    drafting.close()
    for _, result in many.results([LONG[:40]] * 4, max_new_tokens=4):
        assert same(result, shared.generate(LONG[:40], max_new_tokens=4))


@needs_kernels
def test_the_cache_that_holds_a_prompts_beginning_is_taken(shared):
    many = shared.many(3)
    options = {"max_new_tokens": 1, "draft": False, "chat": False}
    many.stream(LONG, **options).close()
    list(many.results([LONG, "another"], **options))
    before = many.target.rows
    list(many.results([LONG + "And then?"], **options))
    assert many.target.rows - before < 40


@needs_kernels
def test_a_prompt_that_is_too_long_ends_only_its_own_text(shared):
    many = shared.many(2, capacity=64)
    good = many.stream("short", chat=False, max_new_tokens=8)
    bad = many.stream(LONG, chat=False, max_new_tokens=8)
    with pytest.raises(edgespec.UsageError, match="the cache holds 64; shorten the prompt"):
        list(bad)
    list(good)
    assert same(good.result, shared.generate("short", chat=False, max_new_tokens=8))
    assert many.free == 2


@needs_kernels
def test_an_error_of_a_callers_drafter_ends_only_its_own_text(shared):
    class Failing:
        seconds = 0.0

        def begin(self, prompt):
            pass

        def propose(self, text, gamma, randomness):
            raise EdgespecError("no idea")

    many = shared.many(2)
    good = many.stream("short", max_new_tokens=8)
    bad = many.stream("short", max_new_tokens=8, draft=Failing(), gamma=2)
    with pytest.raises(EdgespecError, match="no idea"):
        list(bad)
    list(good)
    assert same(good.result, shared.generate("short", max_new_tokens=8))


@needs_kernels
def test_more_texts_than_caches_are_one_line(shared):
    many = shared.many(1)
    with (
        many.stream("a", max_new_tokens=4),
        pytest.raises(edgespec.UsageError, match="1 text is being made, as"),
    ):
        many.stream("b")
    assert many.free == 1


@pytest.mark.parametrize("number", [0, -1])
def test_impossible_numbers_are_one_line(shared, number):
    with pytest.raises(edgespec.UsageError, match=f"texts is {number}; give a whole number from 1"):
        shared.many(number)
    with pytest.raises(edgespec.UsageError, match=f"n is {number}; give a whole number from 1"):
        list(shared.generate_many(["a"], n=number))


def test_a_pair_that_shares_no_calls_makes_one_text_after_the_other(tiny):
    assert not tiny.shares_calls
    prompts = ["a", "bcd", "ef"]
    many = tiny.many(8)
    assert many.capacity == 1
    together = list(tiny.generate_many(prompts, max_new_tokens=12))
    for prompt, result in zip(prompts, together, strict=True):
        assert same(result, tiny.generate(prompt, max_new_tokens=12))
