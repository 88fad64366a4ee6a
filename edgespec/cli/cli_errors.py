"""What a user can mend is one line on stderr, never a traceback."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import click

from edgespec.errors import EdgespecError, UsageError

__all__ = ["one_line_errors"]


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Ends the program with exit code 2 for usage, 1 for failure, 130 after Ctrl-C."""
    try:
        yield
    except EdgespecError as error:
        click.secho(f"edgespec: {error}", err=True, fg="red")
        sys.exit(2 if isinstance(error, UsageError) else 1)
    except OSError as error:
        if error.errno == errno.EPIPE:  # the reader of a pipe has gone; click ends in silence
            raise
        where = error.filename
        if where is None and error.errno == errno.ENOSPC:
            where = "standard output"
            _leave_standard_output()
        reason = f"{where}: {error.strerror}" if where else str(error)
        click.secho(f"edgespec: {reason}", err=True, fg="red")
        sys.exit(1)
    except KeyboardInterrupt:
        click.echo("\nedgespec: interrupted", err=True)
        sys.exit(130)


def _leave_standard_output() -> None:
    """What it still holds would fail once more when Python ends, with a traceback."""
    with suppress(ValueError):  # one that is closed or no file holds nothing
        held = sys.stdout.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, held)
        os.close(nowhere)
