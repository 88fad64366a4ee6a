"""Errors a user can act on: one line that names the value, the limit and the way out."""

__all__ = ["EdgespecError", "UsageError"]


class EdgespecError(Exception):
    """Something outside the program is wrong: a file, a model, a machine. Exit code 1."""


class UsageError(EdgespecError, ValueError):
    """The caller asked for something that cannot be: a bad argument or option. Exit code 2."""
