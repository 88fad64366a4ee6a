"""Claim: an answer depends on the conversation alone, not on what the caches still hold of it.

Earlier turns stay in the cache, and the texts are those of a pair that computes every turn anew:
token by token, greedy and sampled, with and without a draft, and with whatever happened in between.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager, nullcontext

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

import edgespec
from checkpoints import EOS
from command import EDGESPEC, run
from depth import DEEP, one_in
from edgespec.artifact.chat_format import user_message
from edgespec.artifact.graph_io import MAX_ROWS
from edgespec.artifact.manifest import read_manifest
from edgespec.cli.main import main
from edgespec.cli.terminal import chat_session, message_input, quiet_terminal
from edgespec.device.device import Device
from edgespec.pair.opening import loading
from edgespec.pair.opening.runtime import open_model
from edgespec_runtimes.ort import ort_model as ort
from edgespec_runtimes.ort import prefill

QUESTIONS = ("Hello there, who are you?", "And I?", "Say it again, please.", "Thank you.")
WAYS = [
    {"draft": False},
    {"draft": "model", "gamma": 3},
    {"draft": "both"},
    {"draft": "model", "temperature": 1.0, "seed": 5},
    {"draft": False, "temperature": 1.0, "seed": 5},
]


@pytest.fixture(scope="module")
def folder(chat_folder):
    return chat_folder


@pytest.fixture(scope="module", params=["fp32", "int8"])
def pair(request, folder) -> edgespec.Pair:
    return edgespec.load(folder, threads=1, target_format=request.param)


@contextmanager
def computed(model, monkeypatch):
    """Collects how many positions of prompts each call computes."""
    calls: list[int] = []
    run = model._logits

    def counting(tokens, candidates=(), *, prefill=False):
        if prefill:
            calls.append(len(tokens))
        return run(tokens, candidates, prefill=prefill)

    with monkeypatch.context() as patch:
        patch.setattr(model, "_logits", counting)
        yield calls


def talk(pair, between=lambda: None, **options):
    """The answers to the questions, each asked with everything said before."""
    messages, answers = [], []
    for question in QUESTIONS:
        messages.append(user_message(question))
        result = pair.generate(messages, max_new_tokens=40, **options)
        answers.append(result.token_ids)
        messages.append({"role": "assistant", "content": result.text})
        between()
    return answers


def forget(pair):
    pair.target.rewind(0)
    pair.draft.rewind(0)


# --- texts ---------------------------------------------------------------------------------------


@one_in(2)
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_reusing_the_cache_changes_no_answer(pair, way):
    assert talk(pair, **way) == talk(pair, between=lambda: forget(pair), **way)


def test_what_another_text_left_after_changes_no_answer(pair):
    alone = talk(pair, draft="model")
    assert alone == talk(pair, lambda: pair.generate("else", max_new_tokens=3), draft="model")
    again = [user_message(QUESTIONS[0] + "!")]
    assert alone == talk(pair, lambda: pair.generate(again, max_new_tokens=9), draft="model")


def test_an_answer_that_was_broken_off_changes_no_answer(pair):
    def broken_off():
        next(pair.stream([user_message(QUESTIONS[0])], draft="model"))

    assert talk(pair) == talk(pair, broken_off)


def test_greedy_answers_with_a_draft_are_those_without(pair):
    assert talk(pair, draft="model", gamma=4) == talk(pair, draft=False)


def test_a_first_message_is_the_text_in_chat_format(pair):
    options = {"max_new_tokens": 20, "ignore_eos": True}
    text = pair.generate(QUESTIONS[0], chat=True, **options)
    message = pair.generate([user_message(QUESTIONS[0])], **options)
    assert message.token_ids == text.token_ids
    assert message.prompt_tokens == text.prompt_tokens


def test_an_empty_answer_changes_no_answer(pair):
    messages = [user_message("a"), {"role": "assistant", "content": ""}, user_message("b")]
    reused = pair.generate(messages, max_new_tokens=9).token_ids
    forget(pair)
    assert pair.generate(messages, max_new_tokens=9).token_ids == reused


def rough(model, monkeypatch):
    """Long calls that leave other keys and values than short ones, as they may."""
    run = model._logits

    def roughly(tokens, candidates=(), *, prefill=False):
        start, call = model.length, run(tokens, candidates, prefill=prefill)
        if len(tokens) > MAX_ROWS:
            for array in model.cache.values():
                array[:, :, start : start + len(tokens)] *= 1.05
        return call

    monkeypatch.setattr(model, "_logits", roughly)


def by_tokens_alone(cached, anew):
    """Mutant of `prefill.reusable_length` that ignores which call computed a position."""
    alike = [ours[0] == theirs[0] for ours, theirs in zip(cached, anew, strict=False)]
    return alike.index(False) if False in alike else len(alike)


@pytest.mark.parametrize("mutant", [None, by_tokens_alone])
def test_answers_do_not_depend_on_how_a_long_call_rounds(pair, monkeypatch, mutant):
    rough(pair.target, monkeypatch)
    if mutant is not None:
        monkeypatch.setattr(ort, "reusable_length", mutant)

    answered = {"role": "assistant", "content": "Of course. " * 20}
    messages = [user_message(QUESTIONS[0]), answered, user_message("And?")]

    def answer():
        return pair.generate(messages, max_new_tokens=40).token_ids

    forget(pair)
    alone = answer()
    pair.generate(pair.encode(messages), max_new_tokens=2)  # the same tokens, in one long call
    same = answer() == alone
    assert same == (mutant is None)


def test_a_target_that_is_not_exact_reuses_no_cache(pair, monkeypatch):
    """Its calls of one position, which decode plainly, are not those of several."""
    monkeypatch.setattr(pair.drafting, "exact", False)
    messages = [user_message("a" * 60)]
    for _ in range(2):
        with computed(pair.target, monkeypatch) as calls:
            pair.generate(messages, max_new_tokens=2, draft=False)
        assert sum(calls) == len(pair.encode(messages)) - 1


# --- what is computed ----------------------------------------------------------------------------


@pytest.mark.parametrize("draft", [False, "model"])
def test_earlier_turns_are_not_computed_again(pair, monkeypatch, draft):
    system_messages = [user_message("a" * 60)]
    answer = pair.generate(system_messages, max_new_tokens=40, draft=draft)
    messages = [*system_messages, {"role": "assistant", "content": answer.text}, user_message("b")]
    known = [*pair.encode(system_messages), *(t for t in answer.token_ids if t != EOS)]
    prompt = pair.encode(messages)
    assert prompt[: len(known)] == known
    with computed(pair.target, monkeypatch) as calls:
        pair.generate(messages, max_new_tokens=2)
    cut = answer.finish_reason == "max_tokens"  # its last token was never scored
    assert sum(calls) == len(prompt) - 1 - len(known) + cut


def test_an_empty_answer_costs_no_other_one(pair, monkeypatch):
    long = [user_message("a" * 60), {"role": "assistant", "content": "b" * 60}, user_message("c")]
    empty = [*long, {"role": "assistant", "content": ""}, user_message("d")]
    pair.generate(long, max_new_tokens=2)
    with computed(pair.target, monkeypatch) as calls:
        pair.generate(empty, max_new_tokens=2)
    assert sum(calls) == len(pair.encode(empty)) - 1 - len(pair.encode(long))


def test_a_prompt_that_is_no_conversation_is_computed_whole(pair, monkeypatch):
    prompt = "a" * 60
    pair.generate(prompt, max_new_tokens=2)
    with computed(pair.target, monkeypatch) as calls:
        pair.generate(prompt, max_new_tokens=2)
    assert sum(calls) == len(pair.encode(prompt)) - 1


def test_a_call_with_other_tokens_is_computed_again(folder, monkeypatch):
    """A long call may round otherwise than a shorter one, so its positions are reused together."""
    monkeypatch.setattr(prefill, "MAX_PREFILL_ROWS", 20)
    target = read_manifest(folder).target
    model = open_model(folder, target, "fp32", device=Device(1), min_rows=2, max_rows=17)

    def prefilled(prompt, answers=()):
        with computed(model, monkeypatch) as calls:
            model.prefill(prompt, answers)
        return calls

    prompt = list(range(5, 60))
    assert prefilled(prompt) == [20, 20, 14]
    assert prefilled(prompt) == []
    assert prefilled([*prompt[:50], 4, 4]) == [11], "the last call holds other tokens"
    assert prefilled([*prompt[:30], 4]) == [10]
    assert prefilled(prompt[:10]) == [9], "and the first one fewer"
    assert prefilled(prompt, [range(10, 50)]) == [10, 17, 17, 6, 4], "an answer: short calls"
    assert prefilled([*prompt[:30], 4, 4, 4], [range(10, 32)]) == [2], "which are reused one by one"
    assert prefilled(prompt, [range(10, 50)]) == [17, 3, 4]
    assert prefilled(prompt) == [20, 20, 14], "but not for what is no answer"


def test_a_draft_reads_the_newest_answer_and_message_only(pair, monkeypatch):
    system_messages = [user_message("a" * 60)]
    answer = pair.generate(system_messages, max_new_tokens=40, draft="model", gamma=2)
    messages = [*system_messages, {"role": "assistant", "content": answer.text}, user_message("b")]
    with computed(pair.draft, monkeypatch) as calls:
        pair.generate(messages, max_new_tokens=2, draft="model", gamma=2)
    assert sum(calls) == len(pair.encode(messages)) - len(pair.encode(system_messages))


def test_after_any_history_logits_are_those_of_a_fresh_model(folder, monkeypatch):
    """The logits after a conversation are compared bit by bit, after any calls before it."""
    monkeypatch.setattr(prefill, "MAX_PREFILL_ROWS", 20)
    exported = read_manifest(folder).target
    used, fresh = (
        open_model(folder, exported, "int8", capacity=99, device=Device(1), min_rows=2, max_rows=17)
        for _ in range(2)
    )
    text = [int(token) for token in np.random.default_rng(0).integers(272, size=99)]

    class History(RuleBasedStateMachine):
        @rule(count=st.integers(1, 60), change=st.integers(0, 80), data=st.data())
        def prefill(self, count, change, data):
            prompt = text[:count]
            if change < count:
                prompt[change] = 3
            ends = sorted(data.draw(st.sets(st.integers(0, count - 1), max_size=4)))
            answers = [range(*ends[i : i + 2]) for i in range(0, len(ends) - 1, 2)]
            assert used.prefill(prompt, answers) == prompt[-1]
            fresh.rewind(0)
            fresh.prefill(prompt, answers)
            assert np.array_equal(used.score([3]), fresh.score([3]))

        @rule(tokens=st.lists(st.sampled_from(text), min_size=1, max_size=17))
        def score(self, tokens):
            if used.length + len(tokens) <= used.capacity:
                used.score(tokens)

    History.TestCase.settings = settings(
        max_examples=25 if DEEP else 10, stateful_step_count=12, deadline=None
    )
    History.TestCase().runTest()


# --- the command ---------------------------------------------------------------------------------


def test_lines_of_standard_input_are_the_users_turns(folder):
    lines = "\n".join(QUESTIONS)
    limits = ["-n", 40, "--threads", 1]
    answers = run("chat", folder, "--json", *limits, input=lines).stdout.splitlines()
    pair = edgespec.load(folder, threads=1)
    messages = []
    for question, answer in zip(QUESTIONS, answers, strict=True):
        messages.append(user_message(question))
        expected = pair.generate(messages, max_new_tokens=40)
        assert json.loads(answer)["token_ids"] == expected.token_ids
        messages.append({"role": "assistant", "content": expected.text})
    assert run("chat", folder, *limits, input=QUESTIONS[0]).stdout == messages[1]["content"] + "\n"


def test_a_system_prompt_opens_the_conversation(folder):
    options = ["--system", "Be short.", "-n", 20, "--json"]
    once = json.loads(run("generate", folder, "Hi", *options).stdout)
    talked = json.loads(run("chat", folder, *options, input="Hi\n").stdout)
    messages = [{"role": "system", "content": "Be short."}, user_message("Hi")]
    expected = edgespec.load(folder).generate(messages, max_new_tokens=20)
    assert once["token_ids"] == talked["token_ids"] == expected.token_ids


def test_seeds_draw_the_same_conversation_again_and_each_answer_anew(folder):
    same = "Hi\nHi\n"
    options = ["-t", 1, "--seed", 7, "-n", 20, "--json"]
    first, second = run("chat", folder, *options, input=same).stdout.splitlines()
    again = run("chat", folder, *options, input=same).stdout.splitlines()
    ids = [json.loads(line)["token_ids"] for line in (first, second)]
    assert ids == [json.loads(line)["token_ids"] for line in again]
    assert [json.loads(line)["seed"] for line in (first, second)] == [7, 8]


@pytest.mark.parametrize(
    "options",
    [["-n", "0"], ["--gamma", "x"], ["--json", "--show-draft"], ["--no-draft", "--draft", "both"]],
    ids=str,
)
def test_impossible_options_are_refused_before_the_first_message(folder, options):
    result = run("chat", folder, *options, code=2)
    assert result.stderr.startswith("edgespec: ")
    assert len(result.stderr.splitlines()) == 1


@one_in(2)
@pytest.mark.parametrize("command", ["chat", "generate"])
def test_without_a_standard_input_there_is_no_message(folder, command):
    closed = f"{EDGESPEC} {command} {folder} --threads 1 <&-"
    done = subprocess.run(["bash", "-c", closed], capture_output=True, text=True)
    assert "Traceback" not in done.stderr
    assert done.returncode == (0 if command == "chat" else 2)


class Typed:
    """A person at a terminal: what `input` returns or raises, in order."""

    def __init__(self, monkeypatch, *lines):
        self._lines = iter([*lines, EOFError()])
        monkeypatch.setenv("TERM", "dumb")  # Python's own input
        monkeypatch.setattr(message_input, "input", self, raising=False)
        for end in (sys.stdin, sys.stdout):
            monkeypatch.setattr(end, "isatty", lambda: True, raising=False)

    def __call__(self, _):
        line = next(self._lines)
        if isinstance(line, BaseException):
            raise line
        return line


@pytest.fixture
def spoken(folder, monkeypatch):
    """Runs a conversation at a terminal; returns the messages of each question and the output."""

    def talked(*lines, **changes):
        pair = edgespec.load(folder, threads=1)
        asked = []
        stream = pair.stream

        def recording(messages, **options):
            if messages != [
                user_message("?")
            ]:  # the options are tried with a message that is dropped
                asked.append(list(messages))
            return stream(messages, **(options | {"max_new_tokens": 5} | changes))

        monkeypatch.setattr(pair, "stream", recording)
        monkeypatch.setattr(loading, "load", lambda *_, **__: pair)
        monkeypatch.setattr(quiet_terminal, "_without_echo", nullcontext)
        monkeypatch.setattr(chat_session, "typed_meanwhile", str)

        class Terminal(CliRunner):
            """`CliRunner` sets its own stdin when it runs."""

            @contextmanager
            def isolation(self, *arguments, **options):
                with super().isolation(*arguments, **options) as streams:
                    Typed(monkeypatch, *lines)
                    yield streams

        result = Terminal().invoke(main, ["chat", str(folder)])
        assert result.exit_code == 0, result.output
        return [[m["content"] for m in messages] for messages in asked], result

    return talked


def test_at_a_terminal_a_conversation_lasts_until_the_user_leaves(spoken):
    asked, result = spoken("one", "  ", KeyboardInterrupt(), "two", "/help", "/clear", "three")
    assert [messages[::2] for messages in asked] == [["one"], ["one", "two"], ["three"]]
    assert "Ctrl-D" in result.stderr
    assert len(result.stdout.strip().splitlines()) >= 3
    assert spoken("one", "/exit", "two")[0] == [["one"]]


def test_a_conversation_that_is_too_long_is_one_line_and_does_not_end(spoken):
    asked, result = spoken("x" * 2000, "short")
    assert [messages[-1] for messages in asked] == ["x" * 2000, "short"]
    assert asked[1] == ["short"], "what was not answered is not part of it"
    said = " ".join(result.stderr.split())  # it is wrapped for the terminal
    assert said.count("edgespec: ") == 1
    assert "the cache holds" in said
    assert "/undo or /clear makes room" in said


def test_bytes_that_are_no_text_do_not_end_a_conversation(spoken):
    asked, result = spoken(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "x"), "\udcff", "one")
    assert asked[-1] == ["one"]
    lines = [line for line in result.stderr.splitlines() if line.startswith("edgespec: ")]
    assert len(lines) == 2
    assert not any("/clear" in line for line in lines)


def test_a_model_that_does_not_chat_is_refused(tiny_folder):
    assert "no chat format" in run("chat", tiny_folder, input="hi", code=2).stderr
    assert "no chat format" in run("generate", tiny_folder, "hi", "--system", "x", code=2).stderr
