"""Shows an answer while it is made: Markdown or plain, wrapped at words, with its thinking
folded."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

import click

from edgespec.cli.console import console_text
from edgespec.cli.terminal.live_lines import LiveLines
from edgespec.cli.terminal.thinking import Thinking

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token
    from rich.console import Console, RenderableType

    from edgespec.pair.generation import Chunk

__all__ = ["AnswerView", "PlainView", "Shown", "View", "view_of"]

DRAWS_PER_SECOND = 15
# What would move the cursor, change colours or ring; line feeds and tabs stay.
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@dataclass
class Shown:
    """What is shown of answers; `/set` changes it.

    Attributes:
        markdown: rendered, not as it is written.
        thinking: what a model thinks, not only that it does.
        draft: what the draft proposed, in green; the text is then shown as it is written.
        stats: speed and acceptance after each answer.
    """

    markdown: bool = True
    thinking: bool = False
    draft: bool = False
    stats: bool = False


class View(Protocol):
    """Shows an answer as it grows."""

    def add(self, chunk: Chunk) -> None: ...
    def end(self) -> None:
        """Shows what is still held back, and ends the last line."""
        ...


class PlainView:
    """Writes a text as it is made; the terminal breaks its lines."""

    def __init__(self, shown: Shown) -> None:
        self._shown = shown

    def add(self, chunk: Chunk) -> None:
        text = console_text(CONTROL.sub("", chunk.text))
        coloured = self._shown.draft and chunk.from_draft and text
        click.echo(click.style(text, fg="green") if coloured else text, nl=False)

    def end(self) -> None:
        click.echo()


class AnswerView:
    """Draws a text anew as it grows; what is finished of it stays.

    Args:
        console: of the terminal.
        shown: what to show.
        thinks: the prompt ended with the beginning of the model's thinking.
    """

    def __init__(self, console: Console, shown: Shown, thinks: bool = False) -> None:
        self._console = console
        self._shown = shown
        self._lines = LiveLines(console.file)
        self._thinking = Thinking(thinks)
        self._pieces: list[tuple[str, str]] = []  # text and style, of what is not finished
        self._is_first = True
        self._thought = 0  # tokens
        self._began = self._drawn_at = time.perf_counter()
        self._parser = _markdown_parser()

    def add(self, chunk: Chunk) -> None:
        for is_thinking, text in self._thinking.split(CONTROL.sub("", chunk.text)):
            self._add(text, is_thinking, chunk.from_draft)
        self._thought += self._thinking.inside
        if time.perf_counter() - self._drawn_at >= 1 / DRAWS_PER_SECOND:
            self._draw()
            self._drawn_at = time.perf_counter()

    def end(self) -> None:
        for is_thinking, text in self._thinking.rest():
            self._add(text, is_thinking, False)
        self._end_thinking()
        self._keep(self._renderable(self._text))

    @property
    def _text(self) -> str:
        return "".join(text for text, _ in self._pieces)

    def _add(self, text: str, is_thinking: bool, from_draft: bool) -> None:
        if not is_thinking:
            self._end_thinking()
            if not self._pieces and self._is_first:
                text = text.lstrip("\n")
            style = "green" if self._shown.draft and from_draft else ""
            self._pieces.append((text, style))
            self._keep_finished()
        elif self._shown.thinking:
            self._pieces.append((text, "dim"))

    def _end_thinking(self) -> None:
        """Folds the thinking, where the answer begins."""
        if not self._thought:
            return
        tokens, self._thought = self._thought, 0
        if self._shown.thinking:
            self._keep(self._renderable(self._text))
        else:
            seconds = time.perf_counter() - self._began
            self._keep(_dim(f"thought for {seconds:.1f} s, {tokens} tokens (/set thinking on)"))

    def _draw(self) -> None:
        if self._thought and not self._shown.thinking:
            drawn = self._drawn_lines(_dim(f"thinking, {self._thought} tokens …"))
        else:
            drawn = self._drawn_lines(self._renderable(self._text))
        self._lines.show(drawn, self._console.height)

    def _keep_finished(self) -> None:
        """What no later text can change is drawn for the last time: blocks of Markdown before the
        last one, and lines of a text that is shown as it is."""
        text = self._text
        if not self._as_markdown:
            whole, feed, rest = text.rpartition("\n")
            if feed:
                pieces = [*self._pieces]
                self._pieces = _beginning(pieces, len(whole))
                self._keep(self._renderable(whole))
                self._pieces = _ending(pieces, len(rest))
            return
        if "\n" not in self._pieces[-1][0]:
            return
        starts = [token.map[0] for token in _blocks(self._parser.parse(text)) if token.map]
        lines = text.split("\n")
        for start, end in pairwise(starts):
            self._keep(self._renderable("\n".join(lines[start:end])))
        if len(starts) > 1:
            self._pieces = [("\n".join(lines[starts[-1] :]), "")]

    def _keep(self, renderable: RenderableType) -> None:
        drawn = self._drawn_lines(renderable)
        self._lines.keep(drawn)
        self._is_first = self._is_first and not drawn
        self._pieces = []

    def _drawn_lines(self, renderable: RenderableType) -> list[str]:
        with self._console.capture() as captured:
            self._console.print(renderable)
        lines = captured.get().removesuffix("\n").split("\n")
        apart = [""] if self._as_markdown and not self._is_first else []
        return [*apart, *lines] if lines != [""] or not self._as_markdown else []

    def _renderable(self, text: str) -> RenderableType:
        from rich.markdown import Markdown
        from rich.text import Text

        if not self._as_markdown or any(style for _, style in self._pieces):
            return Text.assemble(*self._pieces, overflow="fold")
        markdown = Markdown("", hyperlinks=False)
        markdown.parsed = _with_line_breaks(self._parser.parse(text))
        return markdown

    @property
    def _as_markdown(self) -> bool:
        return self._shown.markdown and not self._shown.draft


def view_of(console: Console | None, shown: Shown, thinks: bool) -> View:
    """What shows an answer: plain where there is no console."""
    return PlainView(shown) if console is None else AnswerView(console, shown, thinks)


def _markdown_parser() -> MarkdownIt:
    """CommonMark with tables, where HTML is text like any other."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").enable(["strikethrough", "table"])
    return parser.disable(["html_block", "html_inline"])


def _blocks(tokens: list[Token]) -> Iterator[Token]:
    """The tokens that begin a block of the page."""
    return (token for token in tokens if token.level == 0 and token.nesting >= 0)


def _with_line_breaks(tokens: list[Token]) -> list[Token]:
    """A model breaks a line where it wants one: in a verse, in an address."""
    for token in tokens:
        for child in token.children or ():
            if child.type == "softbreak":
                child.type = "hardbreak"
    return tokens


def _dim(text: str) -> RenderableType:
    from rich.text import Text

    return Text(text, style="dim")


def _beginning(pieces: list[tuple[str, str]], length: int) -> list[tuple[str, str]]:
    """Pieces with the first characters of these."""
    kept = []
    for text, style in pieces:
        kept.append((text[:length], style))
        length -= len(kept[-1][0])
    return kept


def _ending(pieces: list[tuple[str, str]], length: int) -> list[tuple[str, str]]:
    """Pieces with the last characters of these."""
    backwards = [(text[::-1], style) for text, style in reversed(pieces)]
    return [(text[::-1], style) for text, style in reversed(_beginning(backwards, length))]
