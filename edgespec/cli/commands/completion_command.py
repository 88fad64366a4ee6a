"""`edgespec completion`: what makes a shell complete commands, options and names of pairs."""

from __future__ import annotations

import click
from click.shell_completion import ShellComplete, get_completion_class

__all__ = ["completion"]


@click.command(short_help="Print what makes a shell complete edgespec.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script for SHELL that completes commands, options and names of exported models.

    \b
    Examples:
      echo 'eval "$(edgespec completion bash)"' >> ~/.bashrc
      echo 'eval "$(edgespec completion zsh)"' >> ~/.zshrc
      edgespec completion fish > ~/.config/fish/completions/edgespec.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(context.find_root().command, {}, "edgespec", "_EDGESPEC_COMPLETE")
    click.echo(ShellComplete.source(script))  # without a look at the version of this system's bash
