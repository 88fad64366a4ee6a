"""Claim: the scores of a given text are the log-probabilities that generating it reports, bit by
bit, whatever its length, and whatever is written beside it."""

from __future__ import annotations

import math

import pytest

import edgespec
from edgespec.artifact.chat_format import user_message
from edgespec.errors import UsageError

QUESTION = [user_message("What is it?")]
LENGTHS = [1, 15, 16, 17, 40]  # around the rows of a call
DRAWN = {"temperature": 1.2, "seed": 3}


@pytest.fixture(scope="module")
def chat(chat_folder) -> edgespec.Pair:
    return edgespec.load(chat_folder, threads=1)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("prompt", ["once", [5, 6, 7], QUESTION], ids=["text", "ids", "messages"])
def test_scores_are_those_that_generating_reports(chat, prompt, length):
    made = chat.generate(prompt, max_new_tokens=length, logprobs=True, top_logprobs=2, **DRAWN)
    scores = chat.score(made.token_ids, prompt=prompt, top_logprobs=2)
    assert scores.token_ids == made.token_ids
    assert scores.logprobs == made.logprobs
    assert scores.top_logprobs == made.top_logprobs
    assert (scores.text, scores.starts) == (made.text, made.starts)
    assert scores.logprob == sum(made.logprobs)
    best = [
        tops[0][0] == token for tops, token in zip(made.top_logprobs, made.token_ids, strict=True)
    ]
    assert scores.is_best == best


def test_greedy_text_is_the_best_token_by_token(chat):
    made = chat.generate(QUESTION, max_new_tokens=20)
    assert all(chat.score(made.token_ids, prompt=QUESTION).is_best)


def test_without_a_prompt_the_first_token_has_no_score(chat):
    ids = chat.encode("once upon", False)
    scores = chat.score("once upon")
    assert (scores.token_ids, scores.text) == (ids, "once upon")
    assert scores.logprobs[0] is None
    assert scores.logprobs[1:] == chat.score(ids[1:], prompt=ids[:1]).logprobs


def test_a_text_after_a_text_is_encoded_with_it(chat):
    whole = chat.score("once upon")
    rest = chat.score(" upon", prompt="once", chat=False)
    assert rest.token_ids == whole.token_ids[-len(rest.token_ids) :]
    assert rest.logprobs == whole.logprobs[-len(rest.token_ids) :]


def test_the_text_of_an_encoder_decoder_comes_after_its_prompt(pair):
    made = pair.generate("w5 w6 w7", max_new_tokens=9, logprobs=True)
    scores = pair.score(made.token_ids, prompt="w5 w6 w7")
    assert scores.logprobs == made.logprobs
    with pytest.raises(UsageError, match="encoder reads a prompt before it writes"):
        pair.score("w5")
    with pytest.raises(UsageError, match="its tokens have no scores"):
        pair.generate("w5", score_prompt=True)


@pytest.mark.parametrize("draft", [False, "model"])
def test_a_prompt_is_scored_before_its_text_and_changes_nothing(chat, draft):
    plain = chat.generate("once", chat=False, max_new_tokens=12, draft=draft, **DRAWN)
    scored = chat.generate(
        "once", chat=False, max_new_tokens=12, draft=draft, score_prompt=True, **DRAWN
    )
    assert scored.token_ids == plain.token_ids
    assert scored.prompt_scores == chat.score("once")
    assert plain.prompt_scores is None


def test_prompts_are_scored_beside_other_texts(tool_pair):
    prompts = ["a", "It is open. " * 9, "été 😀", "x" * 40]
    alone = [tool_pair.score(prompt) for prompt in prompts]
    asked = {"max_new_tokens": 5, "score_prompt": True, "texts": 3, "chat": False}
    together = [made.prompt_scores for made in tool_pair.generate_many(prompts, **asked)]
    assert together == alone


def test_no_text_is_made_of_no_tokens(chat):
    made = chat.generate("once", chat=False, max_new_tokens=0, score_prompt=True)
    assert (made.text, made.token_ids, made.finish_reason) == ("", [], "max_tokens")
    assert made.prompt_scores == chat.score("once")
    assert chat.generate("once", chat=False, max_new_tokens=0).text == ""


def test_probabilities_of_all_tokens_sum_to_one(tool_pair):
    logprobs = [tool_pair.score([token], prompt="a").logprob for token in range(0, 272, 16)]
    assert 0 < sum(map(math.exp, logprobs)) < 1
    (tops,) = tool_pair.score([5], prompt="a", top_logprobs=20).top_logprobs
    assert all(math.isclose(tool_pair.score([t], prompt="a").logprob, p) for t, p in tops[:3])


def test_tokens_of_one_character_begin_where_it_does(tool_pair):
    scores = tool_pair.score("aé😀b")
    assert scores.starts == [0, 1, 1, 2, 2, 2, 2, 3]
    assert tool_pair.score(scores.token_ids).starts == scores.starts


@pytest.mark.parametrize(
    ("text", "prompt", "reason"),
    [
        ("", None, "the text is empty"),
        ("", "a", "the text is empty"),
        ([], "a", "the text is empty"),
        ([272], "a", "token 272"),
        ([-1], "a", "token -1"),
        ("a" * 3000, None, "the cache holds"),
        ("a" * 1100, "b" * 1100, "the cache holds"),
        ("\ud800", "a", "is not Unicode"),
        (3, "a", "the text is 3"),
        (5, None, "the text is 5"),
        (["a"], None, "the text holds 'a'"),
        ("a", 5, "the prompt is 5"),
    ],
    ids=lambda value: repr(value)[:12],
)
def test_a_text_that_cannot_be_scored_is_one_line(tool_pair, text, prompt, reason):
    with pytest.raises(UsageError, match=reason):
        tool_pair.score(text, prompt=prompt)
