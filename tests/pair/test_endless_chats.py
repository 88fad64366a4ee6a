"""Claim: a conversation of any length goes on: the oldest turns are left out, the instructions and
the newest turn never; the answer is that of the turns that were read; what stays is reused."""

from __future__ import annotations

from itertools import pairwise

import pytest
from test_conversation import computed

import edgespec
from command import run
from edgespec.artifact.chat_format import user_message
from edgespec.chat import long_conversation
from edgespec.errors import UsageError
from edgespec.pair.keeping import fitting_prompt

SYSTEM = {"role": "system", "content": "Answer as the keeper of a lighthouse does."}


@pytest.fixture
def pair(chat_folder) -> edgespec.Pair:
    pair = edgespec.load(chat_folder, threads=1, target_format="int8", capacity=400)
    pair.when_full = "drop"
    return pair


def said(number: int, size: int = 40) -> str:
    return f"{number}: " + chr(97 + number % 26) * size


def turns(count: int, size: int = 40) -> list[dict[str, str]]:
    messages = [SYSTEM]
    for number in range(count):
        messages += [user_message(said(number, size)), {"role": "assistant", "content": "Yes."}]
    return messages[:-1]


def generated(pair, messages, **options):
    return pair.generate(messages, max_new_tokens=8, ignore_eos=True, **options)


def test_the_oldest_turns_are_left_out_and_the_instructions_are_not(pair, chat_folder):
    plain = edgespec.load(chat_folder, threads=1, target_format="int8", capacity=400)
    for way in ({"draft": False}, {"draft": "model", "temperature": 1.0, "seed": 3}):
        for count in (2, 9, 40):
            messages = turns(count)
            result = generated(pair, messages, **way)
            dropped = result.dropped_messages
            assert dropped % 2 == 0
            assert (dropped > 0) == (count > 2)
            read = [SYSTEM, *messages[1 + dropped :]]
            assert read[1]["role"] == "user"
            assert generated(plain, read, **way).token_ids == result.token_ids
            assert result.prompt_tokens == len(plain.encode(read)) <= 300


def test_by_default_nothing_is_left_out(pair):
    pair.when_full = "stop"
    with pytest.raises(UsageError, match="cache holds 400"):
        generated(pair, turns(40))


def test_a_newest_message_that_is_too_long_is_refused(pair):
    with pytest.raises(UsageError, match="cache holds 400"):
        generated(pair, [*turns(9), user_message("a" * 500)])


def test_what_stays_is_found_in_the_cache(pair, monkeypatch):
    """Turns move seldom: in between only the newest is computed."""
    lengths, cuts = [], []
    for count in range(1, 30):
        with computed(pair.target, monkeypatch) as calls:
            result = generated(pair, turns(count), draft=False)
        lengths.append(sum(calls))
        cuts.append(result.dropped_messages)
    assert cuts == sorted(cuts), "a turn that was left out does not come back"
    moved = [before != after for before, after in pairwise(cuts)]
    assert 0 < sum(moved) <= len(moved) / 2
    stayed = [length for length, has_moved in zip(lengths[1:], moved, strict=True) if not has_moved]
    assert max(stayed) < 120


def by_ones(turns, count, instructions, room):
    """Mutant: as few turns as possible are left out."""
    costs = [sum(count(m["content"]) + 12 for m in turn) for turn in turns]
    first = 0
    while first < len(turns) - 1 and instructions + sum(costs[first:]) > room:
        first += 1
    return first


def test_turns_that_move_each_time_are_seen(pair, monkeypatch):
    monkeypatch.setattr(fitting_prompt, "kept_turns", by_ones)
    with pytest.raises(AssertionError):
        test_what_stays_is_found_in_the_cache(pair, monkeypatch)


def test_a_summary_of_the_callers_stands_for_what_is_left_out(pair):
    seen = []

    def summary(dropped):
        seen.append(list(dropped))
        return [user_message(f"{len(dropped)} messages"), {"role": "assistant", "content": "Yes."}]

    pair.when_full = summary
    messages = turns(40)
    result = generated(pair, messages)
    assert seen[-1] == messages[1 : 1 + result.dropped_messages]
    read = [SYSTEM, *summary(seen[-1]), *messages[1 + result.dropped_messages :]]
    pair.when_full = "stop"
    assert generated(pair, read).token_ids == result.token_ids


@pytest.mark.parametrize("made", [None, "a summary", b"x", user_message("a"), 5])
def test_what_is_no_list_of_messages_is_refused(pair, made):
    pair.when_full = lambda dropped: made
    with pytest.raises(
        UsageError, match=r"when_full's function returned .*; return a list"
    ) as error:
        generated(pair, turns(40))
    assert str(error.value).endswith("return a list of messages, which may be empty")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("made", [[user_message("h" * 900)], list], ids=["long", "all"])
def test_a_summary_that_is_too_long_names_what_made_it(pair, made):
    pair.when_full = made if callable(made) else lambda dropped: made
    with pytest.raises(UsageError, match="with what when_full's function made of 78 messages"):
        generated(pair, turns(40))


def test_a_summary_may_change_the_list_it_is_given(pair):
    pair.when_full = lambda dropped: dropped.clear() or (message for message in ())
    result = generated(pair, turns(40))
    pair.when_full = "drop"
    assert result.dropped_messages == generated(pair, turns(40)).dropped_messages > 0


@pytest.mark.parametrize("policy", [None, "oldest", 3, b"drop"])
def test_there_is_no_other_policy(pair, policy):
    with pytest.raises(UsageError, match="when_full is"):
        pair.when_full = policy


def test_calls_and_results_of_tools_stay_with_their_question():
    call = {"role": "assistant", "content": None, "tool_calls": []}
    messages = [
        *(SYSTEM, {"role": "developer", "content": "x"}, user_message("a"), call),
        *({"role": "tool", "content": "1"}, {"role": "assistant", "content": "b"}),
        *(user_message("c"), user_message("d")),
    ]
    head, found = long_conversation.turns_of(messages)
    assert list(head) == messages[:2]
    assert [list(turn) for turn in found] == [messages[2:6], messages[6:]]


def test_texts_of_a_batch_leave_the_same_turns_out(pair):
    messages = turns(30)
    alone = generated(pair, messages)
    (many,) = pair.generate_many([messages], max_new_tokens=8, ignore_eos=True)
    assert (many.token_ids, many.dropped_messages) == (alone.token_ids, alone.dropped_messages)


def test_a_chat_goes_on_beyond_its_cache(chat_folder):
    lines = "\n".join(said(number) for number in range(12))
    options = ["--threads", 1, "-n", 4, "--capacity", 400]
    refused = run("chat", chat_folder, *options, input=lines, code=2).stderr
    assert "cache holds 400" in refused
    assert refused.rstrip().endswith("; --when-full drop leaves out the oldest turns")
    answers = run("chat", chat_folder, *options, "--when-full", "drop", input=lines)
    assert answers.exit_code == 0


def test_an_answer_that_the_cache_cuts_off_is_said_to_be(chat_folder):
    options = ["--threads", 1, "-n", 90, "--capacity", 140]
    cut = run("chat", chat_folder, *options, input=said(0))
    assert "the cache is full, so this answer ends here; --when-full drop" in cut.stderr
    ended = run("chat", chat_folder, *options, "--when-full", "drop", input=said(0))
    assert "the cache is full, so this answer ends here\n" in ended.stderr
