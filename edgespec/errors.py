"""Errors that a user can act on: one line with the value, the limit and the way out."""

__all__ = ["EdgespecError", "UsageError", "shortened"]


class EdgespecError(Exception):
    """Something outside the program is wrong: a file, a model, a machine. Exit code 1."""


class UsageError(EdgespecError, ValueError):
    """The caller asked for something that cannot be: a bad argument or option. Exit code 2."""


def shortened(value: object, limit: int = 60) -> str:
    """`repr(value)` for an error message, cut to `limit` characters with "…" as the last one.

    A long text is cut before its `repr` is made, so that a text of megabytes costs nothing.
    """
    if isinstance(value, (str, bytes)) and len(value) > limit:
        text = repr(value[:limit])
        return text[: limit - 1] + "…"
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"
