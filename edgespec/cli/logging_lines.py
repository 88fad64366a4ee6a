"""Lines on stderr for what takes long and for warnings: the records of the logger "edgespec"."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import click

__all__ = ["logging_lines"]


class _Lines(logging.Handler):
    """Writes a record's message, and nothing else, to the stderr of the moment. Where that is a
    full disk, or its reader is gone, the work goes on."""

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError):
            click.echo(record.getMessage(), err=True)


@contextmanager
def logging_lines() -> Iterator[None]:
    """Shows records from level INFO on while the block runs."""
    logger = logging.getLogger("edgespec")
    handler, level = _Lines(), logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
