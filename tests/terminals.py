"""A program at a terminal of its own: what it shows is a screen, and keys are typed into it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pyte

CTRL_C, CTRL_D, UP, ENTER, TAB = "\x03", "\x04", "\x1b[A", "\r", "\t"
PASTE_BEGINS, PASTE_ENDS = "\x1b[200~", "\x1b[201~"
PATIENCE = 30.0  # seconds, for a machine with much else to do

# The command line, whose tokens come slowly, so that an answer can be interrupted.
SLOWLY = """
import time
from edgespec.pair.generation import Stream
def slowly(stream, following=Stream.__next__):
    time.sleep(0.01)
    return following(stream)
Stream.__next__ = slowly
from edgespec.__main__ import main
main()
"""


class Terminal:
    """Runs `edgespec` with these arguments.

    Attributes:
        output: all that was written, with its escape sequences.
    """

    def __init__(
        self, *arguments: object, columns: int = 80, lines: int = 24, **environment: str
    ) -> None:
        self._master, slave = os.openpty()
        name = os.ttyname(slave)
        self.output = ""
        self._screen = _AnsweringScreen(columns, lines, self._master)
        self._parser = pyte.Stream(self._screen)
        size = {"COLUMNS": str(columns), "LINES": str(lines)}
        # A session's first terminal is the one that its Ctrl-C comes from.
        script = f'stty cols {columns} rows {lines} <{name}; exec "$@" <>{name} >&0 2>&0'
        program = [sys.executable, "-c", SLOWLY, *map(str, arguments)]
        self._process = subprocess.Popen(
            ["sh", "-c", script, "sh", *program],
            env={**os.environ, "TERM": "xterm-256color", **size, **environment},
            start_new_session=True,
            stdin=slave,
            # Whoever runs the tests in the background may have it ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        os.close(slave)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._master)

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def enter(self, line: str) -> None:
        self.type(line + ENTER)

    def paste(self, text: str) -> None:
        self.type(PASTE_BEGINS + text.replace("\n", "\r") + PASTE_ENDS)

    @property
    def screen(self) -> pyte.Screen:
        """With the colours of its cells."""
        return self._screen

    @property
    def lines(self) -> list[str]:
        """What is on the screen, and what has scrolled off it, without the spaces at the ends."""
        return [line.rstrip() for line in [*self._screen.gone, *self._screen.display]]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def wait(self, arrives: str | Callable[[], bool]) -> str:
        """Until a text is on the screen, or something holds; returns the screen's text."""
        holds = (lambda: arrives in self.text) if isinstance(arrives, str) else arrives
        end = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < end, f"{arrives!r} never came:\n{self.text}"
            assert self._read(), f"it ended before {arrives!r} came:\n{self.text}"
        return self.text

    def hang_up(self) -> None:
        """As a window does that is closed."""
        os.killpg(self._process.pid, signal.SIGHUP)

    def ended(self) -> int:
        """Reads to the end and returns the exit code."""
        end = time.monotonic() + PATIENCE
        while self._read():
            assert time.monotonic() < end, f"it did not end:\n{self.text}"
        return self._process.wait()

    def _read(self) -> bool:
        """Takes what was written since. Returns whether more may come."""
        if not select.select([self._master], [], [], 0.05)[0]:
            return True
        try:
            data = os.read(self._master, 65536)
        except OSError:  # the program's end of it is closed
            return False
        written = data.decode(errors="replace")
        self.output += written
        self._parser.feed(written)
        return bool(data)


class _AnsweringScreen(pyte.Screen):
    """A screen that says where its cursor is, and remembers the lines that scroll off it."""

    def __init__(self, columns: int, lines: int, master: int) -> None:
        super().__init__(columns, lines)
        self._master = master
        self.gone: list[str] = []

    def write_process_input(self, data: str) -> None:
        os.write(self._master, data.encode())

    def index(self) -> None:
        if self.cursor.y == self.lines - 1:
            self.gone.append(self.display[0])
        super().index()
