"""Options that say what a text must look like."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgespec.artifact.text_file import read_text
from edgespec.errors import UsageError

if TYPE_CHECKING:
    from edgespec.grammar.grammar import Grammar

__all__ = ["GRAMMAR", "grammar_option"]


def GRAMMAR(command: Callable[..., object]) -> Callable[..., object]:  # noqa: N802
    """What the text must look like; see `grammar_option`."""
    file = click.Path(path_type=Path)
    for option in (
        click.option("--lark", type=file, help="A text of the context-free grammar in this file."),
        click.option("--regex", help="A text that matches this regular expression as a whole."),
        click.option("--json-schema", type=file, help="JSON that fits the schema in this file."),
    ):
        command = option(command)
    return command


def grammar_option(
    json_schema: Path | None, regex: str | None, lark: Path | None
) -> Grammar | None:
    """The grammar that was asked for.

    Raises:
        UsageError: there are several, or it cannot be used.
    """
    given = {"--json-schema": json_schema, "--regex": regex, "--lark": lark}
    names = [name for name, value in given.items() if value is not None]
    if not names:
        return None
    if len(names) > 1:
        raise UsageError(f"{names[0]} and {names[1]} contradict each other; give one")
    from edgespec.grammar import grammar

    if json_schema is not None:
        return grammar.json_schema(read_text(json_schema))
    if lark is not None:
        return grammar.lark(read_text(lark))
    return grammar.regex(regex or "")
