"""The command line, as tests call it."""

from __future__ import annotations

import sys
from pathlib import Path

from click.testing import CliRunner

from edgespec.cli.main import main

EDGESPEC = Path(sys.executable).with_name("edgespec")  # installed, for processes of their own


def run(*arguments: object, code: int = 0, **options):
    """A command in this process, that ends with this code."""
    result = CliRunner().invoke(main, [str(argument) for argument in arguments], **options)
    assert result.exit_code == code, result.output
    return result
