"""Claim: libedgespec's texts are Python's, token by token, with and without a draft."""

from __future__ import annotations

import random
import threading
from contextlib import suppress
from pathlib import Path

import pytest

import edgespec
from depth import deep
from eagle_checkpoints import SIZE
from native_library import NativeError, NativeModel

SMOLLM2 = Path(__file__).parents[2] / "build" / "smollm2"
SAMPLINGS = (
    {},
    {"temperature": 1.0},
    {"temperature": 0.8, "top_p": 0.9},
    {"temperature": 1.2, "top_k": 20, "repetition_penalty": 1.1},
    {"temperature": 0.9, "min_p": 0.05, "presence_penalty": 0.3, "logit_bias": {7: 2.0}},
    {"repetition_penalty": 1.3, "min_tokens": 9},
)


def prompts(count, vocabulary, seed=0):
    numbers = random.Random(seed)
    return [
        [numbers.randrange(3, vocabulary) for _ in range(numbers.randint(1, 40))]
        for _ in range(count)
    ]


@pytest.fixture(scope="module")
def session(native_tiny):
    return native_tiny.session()


@pytest.mark.parametrize("given", SAMPLINGS)
def test_plain_texts_are_pythons(session, tiny, given):
    for number, prompt in enumerate(prompts(4, tiny.target.vocab_size)):
        options = {**given, "seed": number, "max_new_tokens": 24}
        expected = tiny.generate(prompt, draft=False, **options)
        assert session.text(prompt, draft=0, **options) == expected.token_ids
        assert session.ending == expected.finish_reason


@pytest.mark.parametrize("rule", [None, "token", "block", "coupled"])
@pytest.mark.parametrize("given", SAMPLINGS[:4])
def test_speculative_texts_are_pythons(session, tiny, given, rule):
    accepted = 0
    for number, prompt in enumerate(prompts(3, tiny.target.vocab_size, seed=1)):
        options = {**given, "seed": number, "gamma": 1 + 2 * number, "rule": rule}
        expected = tiny.generate(prompt, draft="model", max_new_tokens=24, **options)
        assert session.text(prompt, draft=1, max_new_tokens=24, **options) == expected.token_ids
        assert session.rounds == expected.stats.target_calls
        assert session.accepted == expected.stats.accepted
        accepted += session.accepted
    assert accepted


@pytest.mark.parametrize("given", [{}, {"temperature": 0.3}])
def test_texts_with_lookup_are_the_plain_ones(session, tiny, given):
    accepted = 0
    for number, prompt in enumerate(prompts(6, tiny.target.vocab_size, seed=7)):
        options = {**given, "seed": number, "max_new_tokens": 40}
        repeated = [*prompt[:8], *prompt[:8], *prompt[:8]]
        plain = session.text(repeated, draft=0, **options)
        assert session.text(repeated, draft=2, gamma=3, **options) == plain
        accepted += session.accepted
    assert accepted


@pytest.mark.parametrize("given", [{}, {"temperature": 1.0, "repetition_penalty": 1.2}])
def test_translations_are_pythons(pair_folder, pair, given):
    """Of an encoder-decoder and its draft: T5, in float32 and int8."""
    session = NativeModel(pair_folder, threads=1).session()
    accepted = 0
    for number, text in enumerate(["Open the file", "the library is new and fast", "game"]):
        tokens = pair.tokenizer.encode(text).ids
        for rule in ("token", "block", "coupled"):
            options = {**given, "seed": number, "rule": rule, "max_new_tokens": 16}
            expected = pair.generate(tokens, draft="model", gamma=3, **options)
            assert session.text(tokens, draft=1, gamma=3, **options) == expected.token_ids
            assert session.ending == expected.finish_reason
            accepted += session.accepted
        assert session.text(tokens, draft=2, **given, seed=number, max_new_tokens=16) == (
            pair.generate(tokens, draft=False, **given, seed=number, max_new_tokens=16).token_ids
        )
    assert accepted


@pytest.mark.parametrize("of", ["eagle_folder", "t5_eagle_folder"])
@pytest.mark.parametrize("given", SAMPLINGS[:3])
def test_texts_with_an_eagle_head_are_pythons(of, request, built, given):
    folder = request.getfixturevalue(of)
    pair, session = edgespec.load(folder, threads=1), NativeModel(folder, threads=1).session()
    proposed = 0
    for number, prompt in enumerate(prompts(4, SIZE, seed=6)):
        options = {**given, "seed": number, "gamma": 1 + number, "max_new_tokens": 20}
        for rule in ("token", "block", "coupled"):
            expected = pair.generate(prompt, draft="model", rule=rule, **options)
            assert session.text(prompt, draft=1, rule=rule, **options) == expected.token_ids
            assert session.rounds == expected.stats.target_calls
            assert session.accepted == expected.stats.accepted
            proposed += expected.stats.drafted
    assert proposed


@pytest.mark.parametrize("given", [{}, {"temperature": 1.0, "presence_penalty": 1.5}])
def test_log_probabilities_are_pythons(session, tiny, given):
    for number, prompt in enumerate(prompts(3, tiny.target.vocab_size, seed=8)):
        options = {**given, "seed": number, "max_new_tokens": 12}
        expected = tiny.generate(prompt, draft="model", gamma=3, logprobs=True, **options)
        assert session.text(prompt, gamma=3, logprobs=1, **options) == expected.token_ids
        assert session.logprobs == pytest.approx(expected.logprobs, rel=1e-12, abs=1e-12)
        assert session.text(prompt, gamma=3, **options) == expected.token_ids
        assert session.logprobs == []


def test_a_text_ends_where_pythons_ends(session, tiny):
    prompt = prompts(1, tiny.target.vocab_size, seed=2)[0]
    whole = session.text(prompt, ignore_eos=1)
    assert (session.ending, len(whole)) == ("capacity", tiny.target.capacity - len(prompt) + 1)
    assert whole == tiny.generate(prompt, draft="model", gamma=4, ignore_eos=True).token_ids
    stop = whole[5]
    assert session.text(prompt, ignore_eos=1, stop_tokens=[stop]) == whole[: whole.index(stop) + 1]
    assert session.ending == "stop"
    assert session.text(prompt, max_new_tokens=0) == []
    assert session.ending == "max_tokens"
    assert list(session.pieces()) == []  # an ended text stays ended


def test_a_seed_draws_the_same_text_and_none_a_new_one(session, tiny):
    prompt = prompts(1, tiny.target.vocab_size, seed=3)[0]
    text = session.text(prompt, temperature=1.5)
    assert session.text(prompt, temperature=1.5, seed=session.seed) == text
    assert session.seed < 2**53
    assert session.text(prompt, temperature=1.5) != text


def test_sessions_of_a_model_do_not_know_each_other(native_tiny, tiny):
    some = prompts(6, tiny.target.vocab_size, seed=4)
    alone = [native_tiny.session().text(prompt, max_new_tokens=20) for prompt in some]
    sessions = [native_tiny.session() for _ in some]
    for one, prompt in zip(sessions, some, strict=True):
        one.begin(prompt, max_new_tokens=20)
    texts = [[] for _ in some]
    running = [one.pieces() for one in sessions]
    for _ in range(20):
        for text, pieces in zip(texts, running, strict=True):
            text += next(pieces, [])
    assert texts == alone

    def make(number):
        texts[number] = sessions[number].text(some[number], max_new_tokens=20)

    threads = [threading.Thread(target=make, args=(number,)) for number in range(len(some))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts == alone


@pytest.mark.parametrize("times", [20, pytest.param(1_000, marks=deep)])
def test_a_cancelled_session_makes_the_next_text_exactly(native_tiny, tiny, times):
    prompt = prompts(1, tiny.target.vocab_size, seed=5)[0]
    session, numbers = native_tiny.session(), random.Random(0)
    expected = session.text(prompt, ignore_eos=1)
    for _ in range(times):
        timer = threading.Timer(numbers.uniform(0, 0.01), session.cancel)
        timer.start()
        with suppress(NativeError):
            assert session.text(prompt, ignore_eos=1) == expected
        timer.join()
        assert session.text(prompt, ignore_eos=1) == expected
    session.begin(prompt)
    session.cancel()
    with pytest.raises(NativeError, match="the text was cancelled; begin again") as cancelled:
        list(session.pieces())
    assert cancelled.value.status == "cancelled"


def test_objects_may_be_closed_in_any_order(tiny_folder, built):
    model = NativeModel(tiny_folder, threads=1)
    first, second = model.session(), model.session()
    expected = first.text([5, 6, 7], max_new_tokens=8)
    second.begin([5, 6, 7], max_new_tokens=8)
    first.close()
    model.close()
    assert [token for tokens in second.pieces() for token in tokens] == expected
    second.close()


@deep
def test_loading_and_closing_leaves_no_memory(tiny_folder, built):
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1])

    def use() -> None:
        model = NativeModel(tiny_folder, threads=1)
        session = model.session()
        session.text([5, 6], max_new_tokens=3)
        session.close()
        model.close()

    for _ in range(50):
        use()
    before = resident()
    for _ in range(1_000):
        use()
    assert resident() - before < 500  # pages: half of one for each load


@deep
def test_greedy_texts_of_smollm2_are_pythons(built):
    """The shipped pair (`make demo-chat`): an int8 target and its EAGLE head."""
    if not SMOLLM2.exists():
        pytest.skip("there is no pair of SmolLM2: make demo-chat")
    pair = edgespec.load(SMOLLM2, threads=1)
    session = NativeModel(SMOLLM2, threads=1).session()
    for number in range(100):
        text = f"Number {number}: write a few words about {number * 7} {'apples' * (number % 3)}"
        prompt = pair.parts.tokenizer.encode(text).ids
        expected = pair.generate(prompt, max_new_tokens=24, draft=False).token_ids
        assert session.text(prompt, max_new_tokens=24, draft=0) == expected
        assert session.text(prompt, max_new_tokens=24, gamma=1 + number % 8) == expected
        assert session.accepted or number  # drafts are taken
