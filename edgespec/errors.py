"""Errors a user can act on: one line that names the value, the limit and the way out."""

__all__ = ["EdgespecError", "UsageError", "shortened"]


class EdgespecError(Exception):
    """Something outside the program is wrong: a file, a model, a machine. Exit code 1."""


class UsageError(EdgespecError, ValueError):
    """The caller asked for something that cannot be: a bad argument or option. Exit code 2."""


def shortened(value: object, limit: int = 60) -> str:
    """A value for a message: its `repr`, cut after `limit` characters."""
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}…"
