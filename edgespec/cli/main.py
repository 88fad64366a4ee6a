"""The command line's group; each command has a file."""

from __future__ import annotations

import os

import click

from edgespec.cli.command_line import CommandLine, CommandsByName
from edgespec.cli.logging_lines import logging_lines
from edgespec.cli.settings_file import settings_of
from edgespec.version import VERSION

__all__ = ["main"]

# What `edgespec --help` shows together.
SECTIONS = {
    "Text": ("generate", "chat", "batch", "serve", "transcribe", "forget"),
    "Models": ("export", "distill", "list", "show", "rm", "prune", "pull", "push"),
    "Speed": ("tune", "bench", "compare"),
    "Exactness and devices": ("inspect", "audit", "providers"),
    "This program": ("completion",),
}
ELSEWHERE = {
    "list": "edgespec.cli.models.list_command:list_models",
    "show": "edgespec.cli.models.list_command:show",
    "rm": "edgespec.cli.models.remove_command:rm",
    "prune": "edgespec.cli.models.remove_command:prune",
    "pull": "edgespec.cli.models.hub_command:pull",
    "push": "edgespec.cli.models.hub_command:push",
}
COMMANDS = CommandsByName(
    {
        name: ELSEWHERE.get(name, f"edgespec.cli.commands.{name}_command:{name}")
        for names in SECTIONS.values()
        for name in names
    }
)


@click.group(
    cls=CommandLine,
    commands=COMMANDS,
    sections=SECTIONS,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(VERSION, prog_name="edgespec")
@click.pass_context
def main(context: click.Context) -> None:
    """On-device text generation that is exactly the model's own, only faster.

    \b
    Examples:
      edgespec chat smollm2-1.7b
      edgespec export flan-t5-large flan-t5-small -o build/flan
      edgespec generate build/flan "translate English to German: Good morning."

    Options that are always the same can stand in ~/.config/edgespec/settings.toml.
    """
    context.with_resource(logging_lines())
    if os.environ.get("NO_COLOR"):
        context.color = False
    if context.invoked_subcommand in COMMANDS:
        name = str(context.invoked_subcommand)
        context.default_map = {name: settings_of(main, context, name)}
