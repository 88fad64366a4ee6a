"""A picture of a chat at a terminal: python scripts/chat_picture.py PAIR docs/images/chat.svg

Types into `edgespec chat` at a pseudo-terminal and draws the screen as it then is.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pyte
from rich.console import Console
from rich.style import Style
from rich.text import Text

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import terminals

terminals.PATIENCE = 300.0  # seconds; loading takes longer than tests wait
COLUMNS, LINES = 72, 19
TYPED = (
    *("/system Answer in one sentence.", "Why is the sky blue?"),
    *("/set draft_colour on", "And why is grass green?"),
)
NAMES = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
# By pyte's names; it has the others as six digits.
COLOURS = {name: name for name in NAMES} | {f"bright{name}": f"bright_{name}" for name in NAMES}
COLOURS |= {"brown": "yellow", "brightbrown": "bright_yellow"}
READY = "message or /help"
# No fonts from elsewhere, unlike rich's own.
FORMAT = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font-size: 18px; font-family: system-ui, sans-serif; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g>
</svg>
"""


def main() -> None:
    folder, file = sys.argv[1:]
    options = ("--no-history", "--seed", 1)
    with terminals.Terminal("chat", folder, *options, columns=COLUMNS, lines=LINES) as terminal:
        for number, line in enumerate(TYPED):
            terminal.wait(lambda: terminal.text.rstrip().endswith(READY))
            terminal.enter(line)
            terminal.wait(lambda done=number + 1: terminal.text.count("\n> ") > done)
        terminal.wait(lambda: terminal.text.rstrip().endswith(READY))
        lines = [styled(terminal.screen, row) for row in range(LINES)]
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    for line in lines:
        console.print(line, no_wrap=True, crop=True)
    console.save_svg(file, title="edgespec chat", code_format=FORMAT)


def styled(screen: pyte.Screen, row: int) -> Text:
    """A line of the screen, with its colours."""
    line = Text()
    for column in range(screen.columns):
        cell = screen.buffer[row][column]
        style = Style(bold=cell.bold, italic=cell.italics, underline=cell.underscore)
        if cell.fg != "default":
            style += Style(color=COLOURS.get(cell.fg) or f"#{cell.fg}")
        line.append(cell.data, style)
    line.rstrip()
    return line


if __name__ == "__main__":
    main()
