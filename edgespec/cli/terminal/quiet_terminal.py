"""The terminal while an answer is made: nothing is echoed, and Ctrl-C ends the answer alone."""

from __future__ import annotations

import os
import re
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["Interruption", "interruptible", "typed_meanwhile"]

MOST_TYPED = 1 << 20  # bytes
# Arrow keys and the like, marks around a pasted text, and characters that control the terminal.
KEYS = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|O.|.)?|[\x00-\x08\x0b-\x1f\x7f]")


class Interruption:
    """Whether Ctrl-C was pressed.

    Attributes:
        pressed: it was. Between two tokens it is asked for, so that no token is cut in two.
        at_once: the next one raises KeyboardInterrupt: while a long prompt is read.
    """

    def __init__(self) -> None:
        self.pressed = False
        self.at_once = True

    def __call__(self, signal_number: int, frame: FrameType | None) -> None:
        if self.at_once or self.pressed:
            raise KeyboardInterrupt
        self.pressed = True


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """Takes Ctrl-C, unless this process was started with it ignored, and switches echo off."""
    interruption = Interruption()
    before = signal.getsignal(signal.SIGINT)
    takes = before is not signal.SIG_IGN
    if takes:
        signal.signal(signal.SIGINT, interruption)
    try:
        with _without_echo():
            yield interruption
    finally:
        if takes:
            signal.signal(signal.SIGINT, before)


@contextmanager
def _without_echo() -> Iterator[None]:
    """Keys are kept for `typed_meanwhile` and not shown. Where there are no such terminals
    (Windows), nothing is shown before it is read anyway."""
    try:
        import termios
    except ImportError:
        yield
        return
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    quiet = termios.tcgetattr(terminal)
    quiet[3] &= ~(termios.ECHO | termios.ICANON)
    quiet[3] |= termios.NOFLSH  # Ctrl-C drops nothing that was typed before
    termios.tcsetattr(terminal, termios.TCSANOW, quiet)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSANOW, before)


def typed_meanwhile() -> str:
    """What was typed while an answer was made, without keys that are no text: the beginning of the
    next message. Call it within `interruptible`."""
    if os.name == "nt":
        return ""
    typed = b""
    terminal = sys.stdin.fileno()
    while len(typed) < MOST_TYPED and select.select([terminal], [], [], 0)[0]:
        more = os.read(terminal, 4096)
        if not more:
            break
        typed += more
    text = typed.decode(errors="ignore").replace("\r\n", "\n").replace("\r", "\n")
    return KEYS.sub("", text)
