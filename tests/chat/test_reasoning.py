"""Claim: thinking is told apart from the answer, in whatever pieces the text comes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_templates import BEGINS_THINKING, CHATML, THINKS
from edgespec.chat.chat_template import ChatTemplate
from edgespec.chat.reasoning import FORMATS, ReasoningReader, Thought, reasoning_format

THINK = FORMATS[0]


def split(pieces, form=THINK, is_open=False):
    """The thinking and the rest of a text that comes in these pieces."""
    reader = ReasoningReader(form, is_open)
    read = [part for piece in pieces for part in reader.read(piece)]
    read += reader.read("", last=True)
    thinking = "".join(part for part in read if isinstance(part, Thought))
    return thinking, "".join(part for part in read if not isinstance(part, Thought))


@pytest.mark.parametrize("form", FORMATS, ids=str)
@pytest.mark.parametrize(
    ("text", "is_open", "expected"),
    [
        ("{0}\nWhy? So.\n{1}\n\nBlue.", False, ("Why? So.", "Blue.")),
        ("Why?{1}Blue.", True, ("Why?", "Blue.")),
        ("\n\n{0}{1}\nBlue.", False, ("", "Blue.")),
        ("Blue.", False, ("", "Blue.")),
        (" Blue.\n", False, ("", " Blue.\n")),
        ("", False, ("", "")),
        ("", True, ("", "")),
        ("cut off, a", True, ("cut off, a", "")),
        ("{0}a{1}b{0}c{1}", False, ("a", "b{0}c{1}")),  # at the beginning only
        ("a {0}b{1}", False, ("", "a {0}b{1}")),
        ("a<b and c</d", True, ("a<b and c</d", "")),
    ],
)
def test_thinking_is_between_the_marks(form, text, is_open, expected):
    text, expected = (
        text.format(form.begin, form.end),
        tuple(part.format(form.begin, form.end) for part in expected),
    )
    assert split([text], form, is_open) == expected
    assert split(text, form, is_open) == expected  # by characters


@given(
    text=st.lists(st.sampled_from(["<think>", "</think>", "<", "think", " ", "\n", "a"])).map(
        "".join
    ),
    cuts=st.lists(st.integers(0, 60)),
    is_open=st.booleans(),
)
def test_how_the_text_is_cut_changes_nothing(text, cuts, is_open):
    ends = sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    pieces = [text[start:end] for start, end in pairwise(ends)]
    assert split(pieces, is_open=is_open) == split([text], is_open=is_open)


def test_nothing_of_a_mark_is_shown_as_text():
    reader = ReasoningReader(THINK, is_open=True)
    assert list(reader.read("so </thi")) == ["so"]
    assert list(reader.read("s is")) == [" </this is"]
    assert list(reader.read(" it</think>")) == [" it"]


def test_a_template_that_names_the_marks_is_that_of_a_model_that_thinks():
    assert reasoning_format(ChatTemplate(THINKS)) == THINK
    assert reasoning_format(ChatTemplate(BEGINS_THINKING)) == THINK
    assert reasoning_format(ChatTemplate(CHATML)) is None
    assert reasoning_format(None) is None
    assert reasoning_format(ChatTemplate(THINKS), special=["<think>"]) is None
