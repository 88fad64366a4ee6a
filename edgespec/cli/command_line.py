"""Groups of commands: errors of one line, help in sections, files that are read when used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from importlib import import_module
from typing import Any

import click

from edgespec.cli.cli_errors import check_decodable, cli_errors

__all__ = ["CommandLine", "CommandsByName", "OneLineErrors"]


class CommandsByName(MutableMapping[str, click.Command]):
    """Commands that are imported when they are asked for: `edgespec list` needs none of the others.

    Args:
        places: of each command by name, "module:attribute".
    """

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = dict(places)
        self._read: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._read:
            module, _, attribute = self._places[name].partition(":")
            self._read[name] = getattr(import_module(module), attribute)
        return self._read[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._places.setdefault(name, "")
        self._read[name] = command

    def __delitem__(self, name: str) -> None:
        del self._places[name]
        self._read.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class OneLineErrors(click.Group):
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


class CommandLine(OneLineErrors):
    """A group whose help shows its commands in sections.

    Args:
        sections: names of commands that its help shows together, by title.
        options: of `click.Group`.
    """

    def __init__(self, *, sections: Mapping[str, Sequence[str]], **options: Any) -> None:
        super().__init__(**options)
        self._sections = sections

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        limit = formatter.width - max(map(len, self.commands))
        for title, names in self._sections.items():
            with formatter.section(title):
                commands = ((name, self.commands[name]) for name in names)
                formatter.write_dl([(n, c.get_short_help_str(limit)) for n, c in commands])
