"""Texts that a user gives in a file or on standard input: UTF-8, read in one way on all systems.

A mark at the beginning is passed over, and each end of a line (also CR LF) is a line feed. The file
"-" is standard input.
"""

from __future__ import annotations

import codecs
import sys
from collections.abc import Iterator
from pathlib import Path

from edgespec.artifact.writing.stream_output import STANDARD
from edgespec.errors import UsageError

__all__ = ["read_lines", "read_standard_input", "read_text", "standard_input_lines"]

STANDARD_INPUT = "standard input"
UTF_16_AND_32 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)


def read_text(path: Path) -> str:
    """Raises UsageError if the file cannot be read or is not UTF-8."""
    if path == STANDARD:
        return read_standard_input()
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    return _decoded(data, str(path))


def read_lines(path: Path) -> list[str]:
    """The lines that are not blank; raises UsageError if there is none."""
    lines = [line for line in read_text(path).split("\n") if line.strip()]
    if not lines:
        raise UsageError(f"{path} has no text; give one text a line")
    return lines


def read_standard_input() -> str:
    """All of it. Raises UsageError if it is closed or not UTF-8 (what is typed has the terminal's
    own encoding)."""
    if sys.stdin is None:
        raise UsageError("standard input is closed; give a file")
    if not sys.stdin.isatty():
        return _decoded(sys.stdin.buffer.read(), STANDARD_INPUT)
    try:
        return sys.stdin.read()
    except UnicodeDecodeError:
        raise UsageError("what was typed is not in the terminal's encoding; try again") from None


def standard_input_lines() -> Iterator[str]:
    """Each line as soon as it is there, without its end. Raises UsageError at one that is not
    UTF-8."""
    for number, line in enumerate(sys.stdin.buffer, start=1):
        mark = codecs.BOM_UTF8 if number == 1 else b""
        yield _decoded(line.removeprefix(mark), STANDARD_INPUT, number).removesuffix("\n")


def _decoded(data: bytes, name: str, line: int = 1) -> str:
    """
    Args:
        line: the number of the first line.
    """
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        if data.startswith(UTF_16_AND_32):
            what = "it begins with the mark of UTF-16 or UTF-32"
        else:
            line += data.count(b"\n", 0, error.start)
            what = f"line {line} has the byte 0x{data[error.start]:02x}"
        raise UsageError(f"{name} is not UTF-8 text: {what}; convert it to UTF-8") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")
