"""What commands say beside their results."""

from __future__ import annotations

import click

__all__ = ["say"]


def say(line: str) -> None:
    """A line about a step that takes long, on stderr."""
    click.echo(line, err=True)
