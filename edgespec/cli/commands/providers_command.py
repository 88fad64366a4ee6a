"""`edgespec providers`: what models can run on."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from edgespec.cli.options import JSON
from edgespec.cli.progress_lines import say

if TYPE_CHECKING:
    from edgespec.device.device import ProviderInfo

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
    from edgespec.pair.opening.runtime import all_providers

    found, not_loaded = all_providers()
    for line in not_loaded:
        say(line)
    click.echo((_as_json if as_json else _described)(found))


def _described(here: Sequence[ProviderInfo]) -> str:
    """A line for each provider: its name in options, and its full description."""
    from edgespec.device.device import CPU
    from edgespec.device.kernels import installed_kernels

    kernels = installed_kernels()
    target = f" ({kernels.target})" if kernels else ""
    return "\n".join(
        f"{provider.name:16} {provider}{target if provider.name == CPU else ''}"
        for provider in here
    )


def _as_json(here: Sequence[ProviderInfo]) -> str:
    return json.dumps({"providers": [dataclasses.asdict(provider) for provider in here]})
