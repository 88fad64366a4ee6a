"""Progress on a terminal: bytes with their rate and the time left, or a fraction of a training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from edgespec.errors import needs_extra

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import ProgressColumn

__all__ = ["Advance", "Progress", "byte_bars", "fraction_bar", "no_progress", "on_terminal"]

# Called with the number of bytes that were processed since the last call.
Advance: TypeAlias = Callable[[int], object]
# Called with a description and a total number of bytes when a task begins.
Progress: TypeAlias = Callable[[str, int], Advance]


def no_progress(what: str, size: int) -> Advance:
    """A `Progress` that shows nothing."""
    return lambda done: None


def on_terminal() -> bool:
    """Whether standard error is a terminal, where bars can be drawn.

    Raises:
        EdgespecError: rich is not installed.
    """
    with needs_extra("export"):
        from rich.console import Console
    return Console(stderr=True).is_terminal


@contextmanager
def byte_bars() -> Iterator[Progress]:
    """A bar for each task: bytes, rate and time left. Silent unless on a terminal.

    Raises:
        EdgespecError: rich is not installed.
    """
    with needs_extra("export"):
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with _bars(TextColumn("{task.description}"), *columns) as bars:

        def begin(what: str, size: int) -> Advance:
            task = bars.add_task(what, total=size)
            return lambda done: bars.advance(task, done)

        yield begin


@contextmanager
def fraction_bar(what: str) -> Iterator[Callable[[float, str], object]]:
    """A bar that is called with the fraction done, from 0 to 1, and a sentence to show after it.

    Raises:
        EdgespecError: rich is not installed.
    """
    with needs_extra("export"):
        from rich.progress import BarColumn, TextColumn
    with _bars(TextColumn(what), BarColumn(), TextColumn("{task.description}")) as bars:
        task = bars.add_task("", total=1.0)
        yield lambda fraction, sentence: bars.update(task, completed=fraction, description=sentence)


@contextmanager
def _bars(*columns: ProgressColumn) -> Iterator[Bars]:
    from rich.console import Console
    from rich.progress import Progress as Bars

    console = Console(stderr=True)
    with Bars(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        yield bars
