"""Claim: what `load`, `generate` and `stream` promise to an application that embeds them.

Three pairs: the shipped one, a tiny one over bytes (its texts are noise, so its characters are as
awkward as characters get), and one over words whose text is known token by token.
"""

from __future__ import annotations

import dataclasses
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import edgespec
from checkpoints import byte_tokenizer, word_tokenizer, write_circle, write_llama, write_noisy
from depth import one_in
from edgespec.pair.generation import StopCondition
from edgespec.pair.tokenizer import GrowingText
from edgespec_export.export_pair import export_pair

PROMPTS = ["The file could not be opened.", "GNU C compiler", "a b a b a b a b a"]
DRAFTS = [True, False, "model", "lookup"]
ENGLISH = "You can change the size of the window."


@pytest.fixture(scope="session")
def words(tmp_path_factory) -> edgespec.Pair:
    """A pair over words w3 … w60: its text is its tokens' words between spaces."""
    folder = tmp_path_factory.mktemp("words")
    target = write_llama(
        folder / "target", vocab_size=61, heads=2, head_size=16, layers=2, spread=3.0
    )
    draft = write_noisy(target, folder / "draft", noise=0.05)
    export_pair(str(target), str(draft), folder / "pair", threads=1)
    return edgespec.load(folder / "pair", threads=1)


WORDS = "w3 w4 w5"


def chunks_of(pair, prompt, **options) -> tuple[list[edgespec.Chunk], edgespec.Generation]:
    stream = pair.stream(prompt, **options)
    chunks = list(stream)
    return chunks, stream.result


def without_times(stats: edgespec.Stats) -> dict[str, object]:
    fields = dataclasses.asdict(stats).items()
    counts = {name: value for name, value in fields if not name.endswith("seconds")}
    return {**counts, "rounds": [time.drafted for time in stats.rounds]}


# --- streams -------------------------------------------------------------------------------------


@one_in(2)
@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("prompt", PROMPTS)
def test_the_chunks_are_the_text_and_the_text_is_the_tokens(pair, tiny, prompt, temperature, draft):
    for loaded in (pair, tiny):
        chunks, result = chunks_of(
            loaded, prompt, draft=draft, temperature=temperature, seed=3, max_new_tokens=40
        )
        assert "".join(chunk.text for chunk in chunks) == result.text
        assert [chunk.token for chunk in chunks if chunk.token is not None] == result.token_ids
        assert result.text == loaded.tokenizer.decode(result.token_ids, skip_special_tokens=True)


@pytest.mark.parametrize("draft", DRAFTS)
def test_generate_is_a_stream_run_to_its_end(pair, draft):
    options = {"draft": draft, "gamma": 3, "seed": 0, "temperature": 0.7}  # no clock has a say
    _, result = chunks_of(pair, ENGLISH, **options)
    again = pair.generate(ENGLISH, **options)
    assert (again.text, again.token_ids) == (result.text, result.token_ids)
    assert without_times(again.stats) == without_times(result.stats)


def test_a_result_grows_with_its_stream(pair):
    stream = pair.stream(ENGLISH)
    for count, chunk in enumerate(stream, start=1):
        if chunk.token is not None:
            assert stream.result.token_ids[-1] == chunk.token
            assert len(stream.result.token_ids) == count
    assert stream.result.finish_reason == "eos"


def test_only_the_drafts_tokens_are_marked_as_drafted(pair):
    chunks, result = chunks_of(pair, ENGLISH, gamma=4)
    assert sum(chunk.from_draft for chunk in chunks) == result.stats.accepted > 0
    assert not any(chunk.from_draft for chunk in chunks_of(pair, ENGLISH, draft=False)[0])


def test_a_stream_may_be_left_at_any_token(pair):
    whole = pair.generate(ENGLISH)
    for stop in range(3):
        for count, _ in enumerate(pair.stream(ENGLISH)):
            if count == stop:
                break
        assert pair.generate(ENGLISH).text == whole.text


def test_a_stream_that_had_all_its_tokens_frees_the_pair(words):
    for options in ({"max_new_tokens": 3, "ignore_eos": True}, {"stop": " "}):
        stream = words.stream(WORDS, **options)
        while len(stream.result.token_ids) != 3 and next(stream, None):
            pass
        words.generate("w7", max_new_tokens=2)
        assert list(stream) == []
        assert stream.result.finish_reason in ("max_tokens", "stop")


def test_two_threads_on_one_pair_get_right_texts_or_an_error(tiny):
    prompts = ["abc", "xyz", "hello", "0123"]
    expected = {prompt: tiny.generate(prompt, ignore_eos=True).token_ids for prompt in prompts}
    wrong, right, refused = [], [], []

    def generate(prompt):
        for _ in range(25):
            try:
                tokens = tiny.generate(prompt, ignore_eos=True).token_ids
            except edgespec.UsageError as error:
                refused.append(str(error))
            else:
                (right if tokens == expected[prompt] else wrong).append(prompt)

    with ThreadPoolExecutor(len(prompts)) as pool:
        list(pool.map(generate, prompts))
    assert not wrong
    assert right
    assert all("is generating another text" in line for line in refused)


def test_a_running_stream_refuses_another_thread_and_is_not_disturbed(tiny):
    expected = tiny.generate("abc", ignore_eos=True).token_ids
    stream = tiny.stream("abc", ignore_eos=True)
    next(stream)
    with ThreadPoolExecutor(1) as pool, pytest.raises(edgespec.UsageError, match="another text"):
        pool.submit(tiny.generate, "xyz").result()
    for _ in stream:
        pass
    assert stream.result.token_ids == expected


@pytest.mark.parametrize("leave", ["close", "with", "forget", "fail"])
def test_a_stream_that_is_left_frees_the_pair(tiny, leave, monkeypatch):
    stream = tiny.stream("abc", ignore_eos=True)
    if leave == "with":
        with stream:
            next(stream)
    elif leave == "fail":
        monkeypatch.setattr(tiny.target, "score", None)
        with pytest.raises(TypeError):
            tiny.generate("abc", draft=False)
        monkeypatch.undo()
    else:
        next(stream)
    if leave == "close":
        stream.close()
        assert list(stream) == []
    if leave == "forget":
        del stream
    assert tiny.generate("xyz", max_new_tokens=3).token_ids


def test_a_stream_that_was_not_begun_occupies_nothing(tiny):
    stream = tiny.stream("abc", ignore_eos=True)
    expected = tiny.generate("abc", ignore_eos=True).token_ids
    for _ in stream:
        pass
    assert stream.result.token_ids == expected


# --- characters of several tokens ----------------------------------------------------------------

TOKENIZERS = {"bytes": byte_tokenizer(272), "words": word_tokenizer(40)}


def grown(tokenizer, tokens, stop=()) -> list[str]:
    """The pieces in which a text is released, up to the stop string."""
    text = GrowingText(tokenizer, stop)
    pieces = []
    for token in tokens:
        pieces.append(text.add(token))
        if text.stopped:
            break
    return [*pieces, text.end()]


@pytest.mark.parametrize("text", ["😀", "a😀b", "naïve Grüße 日本語", "👩‍👩‍👧", "e\u0301"])
def test_an_unfinished_character_is_never_shown(text):
    tokenizer = TOKENIZERS["bytes"]
    tokens = tokenizer.encode(text).ids
    assert len(tokens) == len(text.encode())
    pieces = grown(tokenizer, tokens)
    assert "".join(pieces) == text
    assert not any("\N{REPLACEMENT CHARACTER}" in piece for piece in pieces)


def test_a_character_is_shown_as_soon_as_it_is_whole():
    pieces = grown(TOKENIZERS["bytes"], TOKENIZERS["bytes"].encode("a😀b").ids)
    assert pieces == ["a", "", "", "", "😀", "b", ""]


@given(tokens=st.lists(st.integers(0, 271), max_size=30))
def test_any_bytes_grow_into_what_they_decode_to(tokens):
    tokenizer = TOKENIZERS["bytes"]
    assert "".join(grown(tokenizer, tokens)) == tokenizer.decode(tokens)


@given(data=st.data())
def test_any_tokens_of_the_shipped_pair_grow_into_what_they_decode_to(pair, data):
    tokens = data.draw(st.lists(st.integers(0, pair.tokenizer.get_vocab_size() - 1), max_size=20))
    assert "".join(grown(pair.tokenizer, tokens)) == pair.tokenizer.decode(tokens)


def test_a_stream_of_emoji_shows_emoji(tmp_path):
    """A model that goes through the bytes of one emoji in a circle."""
    tokenizer = TOKENIZERS["bytes"]
    target = write_circle(tmp_path / "target", tokenizer.encode("😀").ids, tokenizer)
    export_pair(str(target), str(target), tmp_path / "pair", threads=1)
    pair = edgespec.load(tmp_path / "pair", threads=1)
    for draft in DRAFTS:
        chunks, result = chunks_of(pair, "😀", max_new_tokens=4 * 5, draft=draft)
        assert result.text == "😀" * 5
        assert [chunk.text for chunk in chunks] == ["", "", "", "😀"] * 5
        # Cut inside a character, the text ends with what these bytes are: nothing readable.
        cut = pair.generate("😀", max_new_tokens=6, draft=draft).text
        assert cut == "😀\N{REPLACEMENT CHARACTER}"


# --- stop strings --------------------------------------------------------------------------------


def continued(pair, tokens):
    """What these tokens add to the text of `WORDS`."""
    before = pair.encode(WORDS)
    decode = pair.tokenizer.decode
    return decode([*before, *tokens])[len(decode(before)) :]


@one_in(2)
@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("gamma", [1, 4, 8, "auto"])
def test_a_stop_string_cuts_wherever_it_comes(words, draft, gamma):
    """Stop strings from all over a text: at the ends of accepted runs and inside them."""
    whole = words.generate(WORDS, max_new_tokens=40, ignore_eos=True, draft=False).text
    for start in range(0, len(whole) - 5, 3):
        stop = whole[start : start + 5]
        chunks, result = chunks_of(
            words, WORDS, max_new_tokens=40, ignore_eos=True, stop=stop, draft=draft, gamma=gamma
        )
        assert result.finish_reason == "stop"
        assert result.text == whole.partition(stop)[0]
        assert "".join(chunk.text for chunk in chunks) == result.text
        # The last token is the one that completes the stop string.
        assert stop in continued(words, result.token_ids)
        assert stop not in continued(words, result.token_ids[:-1])


def test_a_stop_is_not_only_found_at_the_end_of_a_run(words):
    runs = set()
    whole = words.generate(WORDS, max_new_tokens=40, ignore_eos=True, draft=False).text
    for word in whole.split():
        stats = words.generate(WORDS, ignore_eos=True, stop=word, gamma=8).stats
        runs.add(stats.tokens == stats.accepted + stats.target_calls)
    assert runs == {True, False}  # False: the text was cut inside an accepted run


def test_the_first_of_several_stop_strings_ends_the_text(words):
    whole = words.generate(WORDS, max_new_tokens=40, ignore_eos=True).text
    first, second = whole[20:23], whole[10:14]
    result = words.generate(WORDS, ignore_eos=True, stop=[first, "never", second])
    assert result.text == min(whole.partition(first)[0], whole.partition(second)[0], key=len)


@one_in(2)
@pytest.mark.parametrize("draft", DRAFTS)
def test_text_held_back_for_a_stop_string_is_released_when_it_does_not_come(words, draft):
    whole = words.generate(WORDS, max_new_tokens=20, ignore_eos=True, draft=False).text
    for start in range(0, len(whole), 2):
        stop = whole[start : start + 6] + "never"
        chunks, result = chunks_of(
            words, WORDS, max_new_tokens=20, ignore_eos=True, stop=stop, draft=draft
        )
        assert result.text == whole
        assert "".join(chunk.text for chunk in chunks) == whole
        assert result.finish_reason == "max_tokens"


@given(
    tokens=st.lists(st.sampled_from([3, 4, 5]), max_size=15),
    stop=st.text("w345 ", min_size=1, max_size=6),
)
def test_any_text_is_cut_at_the_first_stop_string(tokens, stop):
    tokenizer = TOKENIZERS["words"]
    whole = tokenizer.decode(tokens)
    assert "".join(grown(tokenizer, tokens, [stop])) == whole.partition(stop)[0]


@given(
    tokens=st.lists(st.sampled_from([3, 4, 5]), max_size=15),
    stop=st.text("w345 ", min_size=1, max_size=6),
)
def test_no_shown_text_is_ever_part_of_a_stop_string(tokens, stop):
    tokenizer = TOKENIZERS["words"]
    shown = ""
    for piece in grown(tokenizer, tokens, [stop]):
        shown += piece
        assert stop not in shown


def test_a_stop_string_in_front_of_an_unfinished_character_is_found():
    tokens = TOKENIZERS["bytes"].encode("a \N{GRINNING FACE}").ids[:-1]
    ending = StopCondition(GrowingText(TOKENIZERS["bytes"], [" "]), last_tokens=())
    for token in tokens:
        ending(token)
    assert "".join(ending.pieces) + ending.rest() == "a"
    assert ending.reason == "stop"


# --- where a text ends ---------------------------------------------------------------------------


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("gamma", [1, 3, 8])
@pytest.mark.parametrize("tokens", [1, 2, 5, 11])
def test_max_new_tokens_counts_emitted_tokens_only(words, tokens, gamma, draft):
    result = words.generate(WORDS, max_new_tokens=tokens, gamma=gamma, draft=draft, ignore_eos=True)
    assert len(result.token_ids) == result.stats.tokens == tokens
    assert result.finish_reason == "max_tokens"


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("prompt_length", [1, 2, 90, 95, 96])
def test_a_full_cache_ends_the_text(tiny, prompt_length, draft):
    capacity = tiny.manifest.target.capacity
    result = tiny.generate([20] * prompt_length, ignore_eos=True, draft=draft)
    assert result.finish_reason == "capacity"
    assert len(result.token_ids) == capacity - prompt_length + 1  # the last one is not cached


@one_in(2, turn=1)
@pytest.mark.parametrize("draft", DRAFTS)
def test_a_smaller_capacity_ends_it_earlier_and_changes_nothing_else(tiny_folder, tiny, draft):
    small = edgespec.load(tiny_folder, threads=1, capacity=30)
    result = small.generate([20] * 5, ignore_eos=True, draft=draft)
    whole = tiny.generate([20] * 5, ignore_eos=True, draft=draft)
    assert result.finish_reason == "capacity"
    assert result.token_ids == whole.token_ids[:26]


def test_an_encoder_decoders_text_has_the_cache_for_itself(pair_folder):
    small = edgespec.load(pair_folder, threads=1, capacity=20)
    for draft in DRAFTS:
        result = small.generate(ENGLISH, ignore_eos=True, draft=draft)
        assert len(result.token_ids) == 20
        assert result.finish_reason == "capacity"


@pytest.mark.parametrize("draft", DRAFTS)
def test_an_end_of_text_token_ends_it_unless_it_is_ignored(pair, draft):
    (eos,) = pair.manifest.eos_token_ids
    ended = pair.generate(ENGLISH, draft=draft)
    assert ended.finish_reason == "eos"
    assert ended.token_ids.index(eos) == len(ended.token_ids) - 1
    length = len(ended.token_ids) + 9
    longer = pair.generate(ENGLISH, draft=draft, ignore_eos=True, max_new_tokens=length)
    assert longer.token_ids[: len(ended.token_ids)] == ended.token_ids
    assert len(longer.token_ids) == length


# --- prompts -------------------------------------------------------------------------------------


def test_token_ids_are_taken_as_they_are(pair, tiny):
    for loaded in (pair, tiny):
        ids = loaded.tokenizer.encode(ENGLISH).ids
        expected = loaded.generate(ENGLISH, max_new_tokens=20).token_ids
        for prompt in (ids, tuple(ids), np.array(ids)):
            assert loaded.generate(prompt, max_new_tokens=20).token_ids == expected


# --- statistics ----------------------------------------------------------------------------------


@one_in(3)
@pytest.mark.parametrize("rule", ["coupled", "block", "token"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("stop", [(), ("w1", "w2")])
def test_the_counts_add_up(pair, words, rule, temperature, draft, stop):
    for loaded, prompt in ((pair, ENGLISH), (words, WORDS)):
        chunks, result = chunks_of(
            loaded,
            prompt,
            draft=draft,
            gamma=4,
            temperature=temperature,
            rule=rule,
            stop=stop,
            seed=1,
            max_new_tokens=40,
        )
        stats = result.stats
        assert stats.tokens == len(result.token_ids)
        assert stats.accepted == sum(chunk.from_draft for chunk in chunks)
        assert stats.accepted <= stats.evaluated <= stats.drafted
        assert sum(stats.accepted_runs) == stats.target_calls
        assert sum(n * rounds for n, rounds in enumerate(stats.accepted_runs)) == stats.accepted
        assert sum(stats.accepted_at) == stats.accepted
        assert sum(stats.evaluated_at) == stats.evaluated
        # Each call adds a token of the target's own; only the last one may be cut before it.
        assert stats.tokens - stats.accepted in (stats.target_calls, stats.target_calls - 1)
        assert 0 <= stats.acceptance_rate <= 1
        assert all(0 <= rate <= 1 for rate in stats.acceptance_by_position)
        if draft is False:
            assert stats.drafted == 0
            assert stats.target_calls == stats.tokens


def test_the_draft_of_the_shipped_pair_saves_target_calls(pair):
    stats = pair.generate(ENGLISH, gamma=4).stats
    assert stats.tokens_per_target_call > 1.5


def test_the_time_of_the_reader_is_not_counted(pair, monkeypatch):
    seconds = 0.0
    monkeypatch.setattr(time, "perf_counter", lambda: seconds)
    stream = pair.stream(ENGLISH)
    for _ in stream:
        seconds += 1
    assert seconds > 1
    assert stream.result.stats.seconds == 0


def test_times_add_up(pair):
    stats = pair.generate(ENGLISH, gamma=4).stats
    assert 0 < stats.target_seconds < stats.seconds
    assert 0 < stats.draft_seconds < stats.seconds
    assert stats.target_seconds + stats.draft_seconds <= stats.seconds
    assert 0 < stats.first_token_seconds <= stats.seconds
    assert 0 <= stats.loop_share < 1


# --- log-probabilities ---------------------------------------------------------------------------


def reference_logprobs(pair, prompt, token_ids) -> list[float]:
    """log-softmax of the logits that the target gives when it is shown the text at once."""
    target = pair.target
    pending = target.prefill(pair.tokenizer.encode(prompt).ids)
    logits = target.score([pending, *token_ids[:-1]]).astype(np.longdouble)
    top = logits[np.arange(len(token_ids)), token_ids]
    return [float(x) for x in top - np.log(np.exp(logits).sum(axis=-1))]


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("options", [{}, {"temperature": 1.3, "top_k": 5, "top_p": 0.9}], ids=str)
def test_logprobs_are_the_targets_own_before_temperature_and_truncation(
    pair, words, draft, options
):
    for loaded, prompt in ((pair, ENGLISH), (words, WORDS)):
        chunks, result = chunks_of(
            loaded, prompt, logprobs=True, draft=draft, seed=5, max_new_tokens=16, **options
        )
        assert [c.logprob for c in chunks if c.token is not None] == result.logprobs
        expected = reference_logprobs(loaded, prompt, result.token_ids)
        assert result.logprobs == pytest.approx(expected, abs=1e-12)


def test_logprobs_are_bitwise_the_same_with_and_without_a_draft(pair, words):
    for loaded, prompt in ((pair, ENGLISH), (words, WORDS)):
        plain, *drafted = (
            loaded.generate(prompt, logprobs=True, draft=draft, max_new_tokens=16).logprobs
            for draft in (False, True, "lookup")
        )
        assert plain
        assert drafted == [plain, plain]


@pytest.mark.parametrize("draft", [False, "model"])
def test_the_most_probable_tokens_come_largest_first(tiny, draft):
    options = {"temperature": 1, "seed": 3, "max_new_tokens": 12, "draft": draft}
    usual = tiny.generate("abc", logprobs=True, **options)
    result = tiny.generate("abc", logprobs=True, top_logprobs=5, **options)
    assert result.token_ids == usual.token_ids
    assert result.logprobs == usual.logprobs
    for token, logprob, top in zip(
        result.token_ids, result.logprobs, result.top_logprobs, strict=True
    ):
        values = [value for _, value in top]
        assert len(top) == 5
        assert values == sorted(values, reverse=True)
        assert dict(top).get(token, logprob) == logprob
        assert logprob <= values[0]
    best = [top[0][0] for top in result.top_logprobs]
    assert best != result.token_ids, "only the most probable tokens were drawn"


@pytest.mark.parametrize("number", [-1, 21, 1.5, True, "3"])
def test_a_number_of_most_probable_tokens_out_of_range_is_refused(tiny, number):
    with pytest.raises(edgespec.UsageError, match=r"top_logprobs is .*; give a whole number"):
        tiny.stream("abc", logprobs=True, top_logprobs=number)


def test_logprobs_come_only_when_asked_for(pair):
    chunks, result = chunks_of(pair, ENGLISH)
    assert result.logprobs == []
    assert all(chunk.logprob is None for chunk in chunks)


# --- seeds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("draft", DRAFTS)
def test_a_seed_draws_the_same_text_again_and_another_seed_another(words, draft):
    def drawn(seed):
        return words.generate(
            WORDS, seed=seed, temperature=1.0, max_new_tokens=20, draft=draft, ignore_eos=True
        )

    texts = [drawn(seed).text for seed in range(5)]
    assert [drawn(seed).text for seed in range(5)] == texts
    # Two seeds agree by probability with probability under 0.5**20: each token has several choices.
    assert len(set(texts)) == 5


def test_without_a_seed_texts_differ_and_the_result_says_which_seed_it_was(words):
    options = {"temperature": 1.0, "max_new_tokens": 20, "ignore_eos": True}
    first, second = (words.generate(WORDS, **options) for _ in range(2))
    assert first.seed != second.seed
    assert first.text != second.text
    assert words.generate(WORDS, seed=first.seed, **options).text == first.text


def test_a_greedy_text_does_not_depend_on_the_seed(words):
    texts = {words.generate(WORDS, seed=seed, max_new_tokens=20).text for seed in range(3)}
    assert len(texts) == 1


# --- loading -------------------------------------------------------------------------------------


def test_a_pair_loads_from_a_path_or_its_name(tiny_folder, tiny):
    for folder in (tiny_folder, str(tiny_folder)):
        loaded = edgespec.load(folder, threads=1)
        assert (
            loaded.generate("abc", max_new_tokens=9).text
            == tiny.generate("abc", max_new_tokens=9).text
        )


def test_a_pair_is_relocatable(tiny_folder, tiny, tmp_path, monkeypatch):
    (tmp_path / "moved").symlink_to(tiny_folder)
    monkeypatch.chdir(tmp_path)
    loaded = edgespec.load("moved", threads=1)
    assert (
        loaded.generate("abc", max_new_tokens=9).text == tiny.generate("abc", max_new_tokens=9).text
    )


def test_two_loaded_pairs_do_not_affect_each_other(tiny_folder, tiny):
    other = edgespec.load(tiny_folder, threads=1)
    expected = [tiny.generate(prompt, ignore_eos=True).token_ids for prompt in ("abc", "xyz")]
    streams = [tiny.stream("abc", ignore_eos=True), other.stream("xyz", ignore_eos=True)]
    for _ in zip(*streams, strict=False):
        pass
    for stream in streams:
        for _ in stream:
            pass
    assert [stream.result.token_ids for stream in streams] == expected


def test_a_draft_with_fewer_positions_bounds_the_capacity(tmp_path):
    target = write_llama(tmp_path / "target", vocab_size=61, heads=2, head_size=16)
    draft = write_llama(
        tmp_path / "draft", vocab_size=61, heads=2, head_size=16, max_position_embeddings=64
    )
    export_pair(str(target), str(draft), tmp_path / "pair", threads=1)
    pair = edgespec.load(tmp_path / "pair", threads=1)
    assert pair.target.capacity == 64
    assert pair.generate(WORDS, gamma=2, ignore_eos=True).finish_reason == "capacity"
    with pytest.raises(edgespec.UsageError, match="takes 1 to 64"):
        edgespec.load(tmp_path / "pair", threads=1, capacity=65)


def test_a_pair_says_what_it_is(tiny_folder, tiny, tiny_checkpoints):
    target, draft = tiny_checkpoints
    assert repr(tiny) == f"<edgespec.Pair target={str(target)!r} draft={str(draft)!r}>"


def test_the_number_of_threads_changes_no_token(tiny_folder, tiny):
    two = edgespec.load(tiny_folder, threads=2)
    assert (
        two.generate("abc", ignore_eos=True).token_ids
        == tiny.generate("abc", ignore_eos=True).token_ids
    )
