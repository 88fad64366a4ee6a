"""Writes docs/reference/cli.md from the `--help` of every command: python docs/make_help.py"""

from __future__ import annotations

from pathlib import Path

import click
from click.testing import CliRunner

from edgespec.cli.main import main

__all__ = ["HELP", "REGENERATE", "help_text"]

HELP = Path(__file__).with_name("reference") / "cli.md"
REGENERATE = "python docs/make_help.py"
WIDTH = 96


def help_text() -> str:
    """`--help` of every command, as Markdown."""
    parts = ["# Command line\n", f"Written by `{REGENERATE}`; a test compares the two.\n"]
    for path in ([], *([name] for name in sorted(main.commands))):
        title = " ".join(["edgespec", *path])
        parts.append(f"## {title}\n\n```text\n{_help(path)}```\n")
    return "\n".join(parts)


def _help(path: list[str]) -> str:
    runner = CliRunner()
    settings = {"terminal_width": WIDTH, "max_content_width": WIDTH}
    result = runner.invoke(main, [*path, "--help"], prog_name="edgespec", **settings)
    if result.exit_code:
        raise click.ClickException(result.output)
    return result.stdout


if __name__ == "__main__":
    HELP.write_text(help_text(), encoding="utf-8")
