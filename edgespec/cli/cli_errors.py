"""An error that a user can act on is one line on stderr, never a traceback."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import click

from edgespec.errors import EdgespecError, UsageError, shortened

__all__ = ["check_decodable", "cli_errors", "in_plain_words"]

# What a write says; Windows has no quota of that name.
UNWRITABLE = {errno.ENOSPC, errno.EFBIG, errno.EIO, errno.EBADF, getattr(errno, "EDQUOT", -1)}
# What click raises where nothing is given: its message is the whole help. Older ones print it.
HELP = getattr(click.exceptions, "NoArgsIsHelpError", ())
NUMBERS = {"integer": "a whole number", "float": "a number"}
LONGEST_MESSAGE = 400  # characters; click and the operating system repeat a value in full


@contextmanager
def cli_errors() -> Iterator[None]:
    """Ends the program with exit code 2 for usage, 1 for failure, 130 after Ctrl-C."""
    try:
        yield
    except click.UsageError as error:
        if isinstance(error, HELP):
            raise
        said = in_plain_words(error.message)
        error.message = _without_middle(said)  # type: ignore[misc]  # final to type checkers
        raise
    except EdgespecError as error:
        click.secho(f"edgespec: {_without_middle(str(error))}", err=True, fg="red")
        sys.exit(2 if isinstance(error, UsageError) else 1)
    except OSError as error:
        if error.errno == errno.EPIPE:  # the reader of a pipe has gone; click ends in silence
            raise
        click.secho(f"edgespec: {_without_middle(_reason(error))}", err=True, fg="red")
        sys.exit(1)
    except KeyboardInterrupt:
        click.echo("\nedgespec: interrupted", err=True)
        sys.exit(130)


def in_plain_words(message: str) -> str:
    """What click says of an option, without words of programmers."""
    for kind, word in NUMBERS.items():
        message = re.sub(rf"is not a valid {kind}( range)?\b", f"is not {word}", message)
    return message


def check_decodable(arguments: Sequence[str]) -> None:
    """Raises UsageError for an argument that is not UTF-8: it could not be printed or recorded."""
    for number, argument in enumerate(arguments, start=1):
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise UsageError(
                f"argument {number} is {shortened(argument)}, which is not UTF-8 text; "
                "give it in UTF-8 (a file can be renamed)"
            ) from None


def _reason(error: OSError) -> str:
    """The file and what is wrong with it. Of what is written, only standard output has no name."""
    if error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if error.errno not in UNWRITABLE:
        return str(error)
    _discard_standard_output()
    return f"standard output: {'it is closed' if error.errno == errno.EBADF else error.strerror}"


def _without_middle(message: str) -> str:
    """A long message with its two ends: what is wrong, and what would be right."""
    half = LONGEST_MESSAGE // 2
    return message if len(message) <= LONGEST_MESSAGE else f"{message[:half]}…{message[-half:]}"


def _discard_standard_output() -> None:
    """Without this, what is still buffered would fail again when Python ends, with a traceback."""
    with suppress(ValueError):  # a stream that is closed, or is no file, has nothing buffered
        stdout = sys.stdout.fileno()
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, stdout)
        os.close(devnull)
