"""Claim: a budget ends thinking with the model's own mark, and changes nothing else: the text is
plain decoding's with the same budget, whatever drafts."""

from __future__ import annotations

from dataclasses import replace

import pytest

import edgespec
from chat_templates import BEGINS_THINKING, THINKS
from edgespec.artifact.chat_format import user_message
from edgespec.chat.chat_template import ChatTemplate

ASKED = [user_message("Why?")]
END = "</think>"
DRAWN = {"temperature": 1.0, "seed": 3}


def with_template(pair, template):
    parts = replace(pair.parts, template=ChatTemplate(template))
    return edgespec.Pair(parts, pair.drafting)


@pytest.fixture(scope="module")
def thinking(tool_pair):
    """A model of noise whose prompt begins its thinking."""
    return with_template(tool_pair, BEGINS_THINKING)


@pytest.mark.parametrize("budget", [0, 1, 7])
@pytest.mark.parametrize("options", [{}, DRAWN], ids=["greedy", "drawn"])
def test_thinking_ends_after_so_many_tokens(thinking, budget, options):
    options = {"max_new_tokens": 40, **options}
    free = thinking.generate(ASKED, draft=False, **options)
    plain = thinking.generate(ASKED, draft=False, thinking_budget=budget, **options)
    assert plain.opens_thinking
    assert END not in free.text  # noise ends nothing
    assert plain.token_ids[:budget] == free.token_ids[:budget]
    after = thinking.tokenizer.decode(plain.token_ids[budget:], skip_special_tokens=False)
    assert after.startswith(END)
    assert after.count(END) == 1
    drafted = thinking.generate(ASKED, draft="model", gamma=3, thinking_budget=budget, **options)
    assert drafted.token_ids == plain.token_ids
    assert drafted.stats.drafted > 0


def test_a_budget_that_is_not_reached_changes_nothing(thinking):
    free = thinking.generate(ASKED, max_new_tokens=20)
    assert thinking.generate(ASKED, max_new_tokens=20, thinking_budget=20).token_ids == (
        free.token_ids
    )


def test_a_text_that_does_not_begin_with_thinking_has_no_limit(tool_pair):
    pair = with_template(tool_pair, THINKS)
    free = pair.generate(ASKED, max_new_tokens=20)
    assert not free.opens_thinking
    assert pair.generate(ASKED, max_new_tokens=20, thinking_budget=2).token_ids == free.token_ids


def test_what_a_grammar_says_is_no_thinking(thinking):
    grammar = edgespec.regex("[a-f]{12}")
    text = thinking.generate(ASKED, grammar=grammar, thinking_budget=3).text
    assert len(text) == 12


def test_a_bias_does_not_keep_thinking_from_ending(thinking):
    first = thinking.tokenizer.encode(END, add_special_tokens=False).ids[0]
    text = thinking.generate(
        ASKED, max_new_tokens=20, thinking_budget=2, logit_bias={first: -100}
    ).text
    assert END in text


@pytest.mark.parametrize("budget", [-1, True, 1.5, "7"])
def test_a_budget_is_a_number_of_tokens(thinking, budget):
    with pytest.raises(edgespec.UsageError, match=r"thinking_budget is .*; give a whole number"):
        thinking.generate(ASKED, thinking_budget=budget)
