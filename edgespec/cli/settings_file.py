"""The user's settings file: options of commands that need not be given each time."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from edgespec.errors import EdgespecError, UsageError, nearest

__all__ = ["is_from_file", "settings_of", "settings_path"]

ALL = "all"  # the table for every command that has such an option


def settings_path() -> Path:
    """$EDGESPEC_CONFIG; else edgespec/settings.toml in $XDG_CONFIG_HOME, or in ~/.config."""
    own = os.environ.get("EDGESPEC_CONFIG")
    if own:
        return Path(own).expanduser()
    folder = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(folder).expanduser() / "edgespec" / "settings.toml"


def settings_of(group: click.Group, context: click.Context, name: str) -> dict[str, Any]:
    """Values of a command's options by the names of its parameters: the command's table, and for
    others the table `all`.

    Raises:
        UsageError: a command or an option does not exist.
        EdgespecError: the file cannot be read.
    """
    path = settings_path()
    tables = _tables(path, group, context)
    if not tables:
        return {}
    own = _options(group, context, name)
    for key in tables.get(ALL, {}):
        if key not in own:
            everywhere = {
                o for other in group.list_commands(context) for o in _options(group, context, other)
            }
            _check(path, ALL, key, everywhere)
    for key in tables.get(name, {}):
        _check(path, name, key, own)
    given = {**tables.get(ALL, {}), **tables.get(name, {})}
    return {own[key]: value for key, value in given.items() if key in own}


def is_from_file(name: str) -> bool:
    """Whether the running command has a parameter's value from the settings file."""
    context = click.get_current_context(silent=True)
    return context is not None and (
        context.get_parameter_source(name) is ParameterSource.DEFAULT_MAP
    )


def _tables(path: Path, group: click.Group, context: click.Context) -> Mapping[str, Any]:
    """The tables of the file; none where there is no file."""
    try:
        text = path.read_text(encoding="utf-8")
        import tomllib  # takes a few milliseconds, and most have no such file

        tables = tomllib.loads(text)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise EdgespecError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise EdgespecError(f"{path} is no TOML ({error}); mend or remove it") from None
    commands = [ALL, *group.list_commands(context)]
    for name, table in tables.items():
        if name not in commands or not isinstance(table, Mapping):
            raise UsageError(
                f"{path} has {name!r}, which is no table of a command{nearest(name, commands)}; "
                "write [generate], say, or [all], and options below it"
            )
    return tables


def _options(group: click.Group, context: click.Context, name: str) -> dict[str, str]:
    """The parameters of a command by the names of their options, as they are typed."""
    command = group.get_command(context, name)
    assert command is not None
    return {
        flag.removeprefix("--"): str(option.name)
        for option in command.params
        if isinstance(option, click.Option)
        for flag in option.opts
        if flag.startswith("--")
    }


def _check(path: Path, table: str, key: str, known: Mapping[str, str] | set[str]) -> None:
    if key not in known:
        raise UsageError(
            f"{path} has {key!r} in [{table}], which is no option there{nearest(key, known)}"
        )
