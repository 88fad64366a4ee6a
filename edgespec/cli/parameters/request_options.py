"""Options of the commands that answer requests."""

from __future__ import annotations

import click

__all__ = ["STRICT", "TEXTS"]

TEXTS = click.option(
    "--texts",
    type=click.IntRange(min=1),
    default=8,
    show_default=True,
    help="Texts that are made at once, each as if it were alone. Needs kernels.",
)
STRICT = click.option(
    "--strict",
    is_flag=True,
    help="Refuse requests with fields that are not known; else they are passed over with a note.",
)
