"""Lines on stderr for what takes long and for warnings: the records of the logger "edgespec"."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import click

from edgespec.device.live_progress import LIVE

__all__ = ["logging_lines"]

BEGIN_OF_LINE, ERASE = "\r", "\x1b[K"


class _Lines(logging.Handler):
    """Writes a record's message, and nothing else, to the stderr of the moment. Where that is a
    full disk, or its reader is gone, the work goes on."""

    _is_live = False  # the cursor is in a line that may change

    def emit(self, record: logging.LogRecord) -> None:
        if LIVE < record.levelno < logging.INFO:
            return
        is_live, message = record.levelno == LIVE, record.getMessage()
        with suppress(OSError):
            self.erase()
            if message:
                click.echo(message, err=True, nl=not is_live)
                self._is_live = is_live

    def erase(self) -> None:
        """Takes the line away that may change."""
        if self._is_live:
            self._is_live = False
            click.echo(BEGIN_OF_LINE + ERASE, err=True, nl=False, color=True)  # it is no colour


@contextmanager
def logging_lines() -> Iterator[None]:
    """Shows records from level INFO on while the block runs, and at a terminal those of `LIVE`."""
    logger = logging.getLogger("edgespec")
    handler, level = _Lines(), logger.level
    logger.addHandler(handler)
    logger.setLevel(LIVE if _has_live_lines() else logging.INFO)
    try:
        yield
    finally:
        with suppress(OSError):
            handler.erase()
        logger.removeHandler(handler)
        logger.setLevel(level)


def _has_live_lines() -> bool:
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    return is_terminal and os.environ.get("TERM") not in ("dumb", "unknown")
