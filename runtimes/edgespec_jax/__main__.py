"""`python -m edgespec_jax`: the paper's tables, in a checkout."""

from edgespec.cli.console import set_up_console
from edgespec_jax.reproduce.reproduce_command import reproduce

if __name__ == "__main__":
    set_up_console()
    reproduce(prog_name="python -m edgespec_jax")
