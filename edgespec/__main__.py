"""`python -m edgespec` is the command line."""

from edgespec.cli.main import main

__all__: list[str] = []

main(prog_name="edgespec")
