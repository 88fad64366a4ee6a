"""A group of commands whose errors are one line."""

from __future__ import annotations

from typing import Any

import click

from edgespec.cli.cli_errors import check_decodable, cli_errors

__all__ = ["CommandLine"]


class CommandLine(click.Group):
    """A group whose errors are one line, in parsing and in every command."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        with cli_errors():
            check_decodable(args)
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> object:
        with cli_errors():
            return super().invoke(ctx)
