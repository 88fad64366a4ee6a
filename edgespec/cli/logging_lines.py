"""What the library logs, as lines on stderr."""

from __future__ import annotations

import logging

import click

__all__ = ["LoggingLines", "log_to_stderr"]

LOGGER = "edgespec"


class LoggingLines(logging.Handler):
    """Prints the message of each record on stderr, next to the output on stdout."""

    def emit(self, record: logging.LogRecord) -> None:
        click.echo(record.getMessage(), err=True)


def log_to_stderr() -> None:
    """Shows INFO and above of the logger "edgespec"; calling it again changes nothing."""
    logger = logging.getLogger(LOGGER)
    logger.setLevel(logging.INFO)
    if not any(isinstance(handler, LoggingLines) for handler in logger.handlers):
        logger.addHandler(LoggingLines())
