"""`edgespec providers`: what models can run on."""

from __future__ import annotations

import click

from edgespec.cli.options import JSON
from edgespec.cli.progress_lines import say

__all__ = ["providers"]


@click.command(short_help="List what models can run on here.")
@JSON
def providers(as_json: bool) -> None:
    """List the execution providers that ONNX Runtime has on this machine.

    Each runs the operators that it knows; the processor runs the others. Plug-ins are found by the
    names of their packages, such as onnxruntime-ep-openvino.

    \b
    Example:
      edgespec providers
    """
    from edgespec.cli.render_providers import describe_providers, providers_json
    from edgespec.pair.opening.runtime import all_providers

    found, not_loaded = all_providers()
    for line in not_loaded:
        say(line)
    click.echo((providers_json if as_json else describe_providers)(found))
