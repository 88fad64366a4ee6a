"""Standard output and standard error in whatever encoding they have.

A pipe on Windows, an old terminal or PYTHONIOENCODING may lack characters of a text or of a help
page. Then edgespec's own symbols are spelled ("gamma"), and every other character is written as
Python's escape (\\u4f60), so that nothing is lost and nothing fails.
"""

from __future__ import annotations

import codecs
import io
import sys

__all__ = ["console_text", "set_up_console"]

SPELLED = "edgespec.spelled"  # the name of an error handler of Python's codecs
SYMBOLS = {
    **{"α": "alpha", "γ": "gamma", "χ": "chi", "Σ": "sum"},
    **{"×": "x", "·": "*", "−": "-", "±": "+-", "≤": "<=", "≥": ">=", "²": "^2"},
    **{"→": "->", "←": "<-", "…": "...", "–": "-", "—": "-"},
    **{"“": '"', "”": '"', "’": "'", "━": "-", "╸": "-", "╺": "-"},
}


def set_up_console() -> None:
    """Makes standard output and standard error of this process take any text."""
    codecs.register_error(SPELLED, _spelled)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            if codecs.lookup(stream.encoding).name == "ascii":
                setattr(sys, name, _AsciiConsole(stream))
            else:
                stream.reconfigure(errors=SPELLED)


def console_text(text: str) -> str:
    """A model's text as standard output can have it: what its encoding lacks becomes escapes, and
    nothing is spelled, which could not be told from what the model wrote."""
    encoding = getattr(sys.stdout, "characters", None) or sys.stdout.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _spelled(error: UnicodeError) -> tuple[str, int]:
    """An error handler for encoding; see `codecs.register_error`."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    ascii_only = (
        SYMBOLS.get(character) or character.encode("ascii", "backslashreplace").decode("ascii")
        for character in lacking
    )
    return "".join(ascii_only), error.end


class _AsciiConsole(io.TextIOWrapper):
    """A stream of ASCII. click takes an encoding of that name for a mistake and writes UTF-8, so
    this one bears the name of UTF-8, whose bytes for ASCII are the same."""

    characters = "ascii"

    def __init__(self, stream: io.TextIOWrapper) -> None:
        super().__init__(
            stream.buffer,
            encoding="utf-8",
            line_buffering=stream.line_buffering,
            write_through=stream.write_through,
        )
        self._stream = stream  # its end would close the buffer

    def write(self, text: str) -> int:
        super().write(text.encode("ascii", SPELLED).decode("ascii"))
        return len(text)
