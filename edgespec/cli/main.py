"""The command line's group; each command has a file."""

from __future__ import annotations

import os

import click

from edgespec import __version__
from edgespec.cli.command_line import CommandLine
from edgespec.cli.commands.batch_command import batch
from edgespec.cli.commands.bench_command import bench
from edgespec.cli.commands.chat_command import chat
from edgespec.cli.commands.compare_command import compare
from edgespec.cli.commands.distill_command import distill
from edgespec.cli.commands.export_command import export
from edgespec.cli.commands.forget_command import forget
from edgespec.cli.commands.generate_command import generate
from edgespec.cli.commands.inspect_command import inspect
from edgespec.cli.commands.providers_command import providers
from edgespec.cli.commands.serve_command import serve
from edgespec.cli.commands.transcribe_command import transcribe
from edgespec.cli.commands.tune_command import tune
from edgespec.cli.logging_lines import logging_lines

__all__ = ["main"]

COMMANDS = (
    batch,
    bench,
    chat,
    compare,
    distill,
    export,
    forget,
    generate,
    inspect,
    providers,
    serve,
    transcribe,
    tune,
)


@click.group(cls=CommandLine, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="edgespec")
@click.pass_context
def main(context: click.Context) -> None:
    """On-device text generation that is exactly the model's own, only faster.

    \b
    Example:
      edgespec chat smollm2-1.7b
      edgespec export flan-t5-large flan-t5-small -o build/flan
      edgespec generate build/flan "translate English to German: Good morning."
    """
    context.with_resource(logging_lines())
    if os.environ.get("NO_COLOR"):
        context.color = False


for command in COMMANDS:
    main.add_command(command)
