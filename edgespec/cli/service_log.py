"""The log of a server: lines for people or JSON objects, on stderr or in a file."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from logging.handlers import WatchedFileHandler
from pathlib import Path

import click

from edgespec.cli.progress_lines import say
from edgespec.errors import UsageError

__all__ = ["LEVELS", "service_log"]

LEVELS = ("debug", "info", "warning", "error")
LOGGERS = ("edgespec", "uvicorn", "asyncio")


class _Json(logging.Formatter):
    """A record as a JSON object on one line; its fields are beside the message."""

    def format(self, record: logging.LogRecord) -> str:
        fields = getattr(record, "fields", {})
        whole = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **fields,
        }
        if record.exc_info:
            whole["traceback"] = self.formatException(record.exc_info)
        return json.dumps(whole)


class _OnStderr(logging.Handler):
    """Writes to the stderr of the moment. Where that is a full disk, or its reader is gone, the
    server goes on."""

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError):
            click.echo(self.format(record), err=True)


class _InFile(WatchedFileHandler):
    """Adds lines to a file, which another program may move away meanwhile. One that cannot be
    written any more is said once on stderr, and the server goes on."""

    _complained = False

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  # logging's name
        if not self._complained:
            self._complained = True
            say(f"the log {self.baseFilename} cannot be written any more; requests are answered")

    def close(self) -> None:
        """What a full disk kept from being written is lost."""
        with suppress(OSError):
            super().close()


@contextmanager
def service_log(level: str, as_json: bool, file: Path | None) -> Iterator[None]:
    """Writes the records of the server while the block runs, and no others.

    Args:
        level: the least; one of `LEVELS`.
        file: for lines; None for stderr.

    Raises:
        UsageError: the file cannot be written.
    """
    handler = _OnStderr() if file is None else _opened(file)
    with_time = "%(asctime)s %(levelname)s %(message)s"
    plain = logging.Formatter("%(message)s" if file is None else with_time)
    handler.setFormatter(_Json() if as_json else plain)
    loggers = [logging.getLogger(name) for name in LOGGERS]
    before = [(logger.handlers[:], logger.level) for logger in loggers]
    for logger in loggers:
        logger.handlers[:] = [handler]
        logger.setLevel(level.upper())
    # Its warnings are of clients that left while they were sent to; each has its line.
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, (handlers, number) in zip(loggers, before, strict=True):
            logger.handlers[:] = handlers
            logger.setLevel(number)
        handler.close()


def _opened(file: Path) -> logging.Handler:
    try:
        return _InFile(file, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise UsageError(
            f"the log {file} cannot be written: {error.strerror}; give another --log-file"
        ) from None
