"""Claim: an answer is shown while it is made, wrapped at words, as Markdown or as it is written;
what stays on the screen does not depend on where its tokens end."""

from __future__ import annotations

import io
from itertools import pairwise

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from depth import deep
from edgespec.cli.terminal import answer_view
from edgespec.cli.terminal.answer_view import AnswerView, Shown
from edgespec.cli.terminal.thinking import Thinking
from edgespec.pair.generation import Chunk

MARKDOWN = """# A title

Some *words* and **more words** of `code`, in a line that is
broken where the model broke it.

1. one item
2. another, which is long enough to need a second line on a narrow terminal

```python
def f():
    return "<b>"
```

| a | b |
|---|---|
| 1 | 2 |
| three | 4 |

HTML <i>as text</i>, [a link](https://example.org/page) and the end"""
PLAIN = "First line\n\n  indented, and a line that is rather long for a narrow terminal\nlast"


@pytest.fixture(autouse=True)
def _draws_each_token(monkeypatch):
    monkeypatch.setattr(answer_view, "DRAWS_PER_SECOND", 1e9)


def screen_of(
    pieces: list[str],
    shown: Shown,
    *,
    columns: int = 80,
    lines: int = 60,
    thinks: bool = False,
    drafted: bool = False,
    **how: bool,
) -> tuple[str, str]:
    """The screen after an answer, and what was written to it."""
    file = io.StringIO()
    console = Console(
        file=file, force_terminal=True, width=columns, height=lines, highlight=False, **how
    )
    view = AnswerView(console, shown, thinks)
    for piece in pieces:
        view.add(Chunk(1, piece, drafted))
    view.end()
    screen = pyte.HistoryScreen(columns, lines)
    pyte.Stream(screen).feed(file.getvalue().replace("\n", "\r\n"))
    return "\n".join(line.rstrip() for line in screen.display).rstrip(), file.getvalue()


def cut(text: str, at: list[int]) -> list[str]:
    places = sorted({0, len(text), *(place % len(text) for place in at)})
    return [text[begin:end] for begin, end in pairwise(places)]


CASES = [
    (MARKDOWN, Shown(), 80, 9),
    (MARKDOWN + "\n", Shown(), 25, 23),
    ("\n\n" + PLAIN, Shown(), 25, 2),
    (PLAIN, Shown(markdown=False), 25, 1),
    (PLAIN + "\n", Shown(draft=True), 80, 3),
]


@pytest.mark.parametrize(("text", "shown", "columns", "size"), CASES, ids=range(len(CASES)))
def test_where_tokens_end_makes_no_difference(text, shown, columns, size):
    whole, _ = screen_of([text], shown, columns=columns)
    pieces = [text[begin : begin + size] for begin in range(0, len(text), size)]
    assert screen_of(pieces, shown, columns=columns)[0] == whole


@deep
@given(st.lists(st.integers(0, 1000), max_size=6))
def test_nor_does_any_other_way_to_cut_it(places):
    assert screen_of(cut(MARKDOWN, places), Shown())[0] == screen_of([MARKDOWN], Shown())[0]


def test_markdown_is_shown_as_pages_do():
    text, written = screen_of([MARKDOWN], Shown())
    assert "**" not in text
    assert "```" not in text
    assert "in a line that is\nbroken where" in text
    assert "HTML <i>as text</i>, a link (https://example.org/page)" in text
    assert "\x1b[1mmore words" in written


@pytest.mark.parametrize("shown", [Shown(), Shown(markdown=False)], ids=str)
def test_words_are_not_cut_at_the_edge(shown):
    words = [f"word{number}" for number in range(25)]
    text, _ = screen_of([word + " " for word in words], shown, columns=33)
    assert max(map(len, text.splitlines())) <= 33
    assert text.split() == words


def test_an_answer_longer_than_the_screen_is_whole_above_it():
    words = [f"line{number}" for number in range(40)]
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=30, height=8)
    view = AnswerView(console, Shown())
    for word in words:
        view.add(Chunk(1, f"- {word}\n"))
    view.end()
    screen = pyte.HistoryScreen(30, 8, history=100)
    pyte.Stream(screen).feed(file.getvalue().replace("\n", "\r\n"))
    gone = ["".join(line[x].data for x in range(30)) for line in screen.history.top]
    shown = [line.strip(" •") for line in [*gone, *screen.display] if line.strip()]
    assert shown == words


def test_without_colour_nothing_is_coloured():
    pieces = ["plain *text* ", "`code`"]
    for shown in (Shown(), Shown(draft=True)):
        _, written = screen_of(pieces, shown, drafted=True, no_color=True)
        assert "\x1b[3" not in written.replace("\x1b[3m", "")  # italics are no colour
    assert "\x1b[32m" in screen_of(pieces, Shown(draft=True), drafted=True)[1]


def test_a_model_cannot_move_the_cursor_or_ring():
    text, written = screen_of(["a\x1b[2J\x1b]0;title\x07b\x9b3A\rc"], Shown(markdown=False))
    assert text == "a[2J]0;titleb3Ac"
    assert "\x07" not in written


# --- thinking ------------------------------------------------------------------------------------

THOUGHT = "<think>\nWhat is 1 + 1?\n</think>\n\nIt is **2**."


@pytest.mark.parametrize("size", [1, 3, 100])
def test_thinking_is_folded(size):
    pieces = [THOUGHT[begin : begin + size] for begin in range(0, len(THOUGHT), size)]
    text, _ = screen_of(pieces, Shown())
    assert "What is" not in text
    assert "think>" not in text
    assert text.endswith("It is 2.")
    shown, _ = screen_of(pieces, Shown(thinking=True))
    assert "What is 1 + 1?" in shown
    assert shown.endswith("It is 2.")


@pytest.mark.parametrize("size", [1, 3, 100])
@pytest.mark.parametrize(
    ("text", "begun", "thought", "answer"),
    [
        (THOUGHT, False, "\nWhat is 1 + 1?\n", "\n\nIt is **2**."),
        ("so</think>2", True, "so", "2"),
        ("so</thin", True, "so</thin", ""),
        ("2 is <think>no mark</think>", False, "", "2 is <think>no mark</think>"),
        ("<thi", False, "", "<thi"),
        ("  <think>a", False, "a", ""),
        ("", False, "", ""),
    ],
)
def test_thinking_is_told_from_the_answer_wherever_tokens_end(size, text, begun, thought, answer):
    thinking = Thinking(begun)
    found = [
        piece
        for begin in range(0, len(text), size)
        for piece in thinking.split(text[begin : begin + size])
    ]
    found += thinking.rest()
    assert "".join(piece for inside, piece in found if inside) == thought
    assert "".join(piece for inside, piece in found if not inside) == answer
