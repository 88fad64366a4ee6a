"""What commands say beside their results."""

from __future__ import annotations

from contextlib import suppress

import click

__all__ = ["say", "say_missing_kernels"]


def say(line: str) -> None:
    """A line about a step that takes long, on stderr, if that can be written."""
    with suppress(OSError):
        click.echo(line, err=True)


def say_missing_kernels() -> None:
    """Says if this processor has kernels and they are not used, and how to get them."""
    from edgespec.device.kernels import missing_kernels

    if why := missing_kernels():
        say(f"slower than it could be: {why}")
