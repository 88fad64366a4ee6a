"""Options that commands of several files share."""

from __future__ import annotations

import click

__all__ = ["CHAT"]

CHAT = click.option(
    "--chat/--no-chat",
    default=None,
    help="Put the model's chat format around each prompt; default: if it has one.",
)
