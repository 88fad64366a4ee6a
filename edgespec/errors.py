"""Errors that a user can act on: one line with the value, the limit and the way out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote

__all__ = [
    "EdgespecError",
    "UsageError",
    "check_names",
    "in_checkout",
    "looks_like_a_path",
    "nearest",
    "needs_extra",
    "one_line",
    "printable",
    "shortened",
]

CHECKOUT = Path(__file__).parents[1]
EXPORTER = ("edgespec_export", "edgespec_distill")


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
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits; lists in lists
        return f"{type(value).__name__} too long to show"
    return text if len(text) <= limit else text[: limit - 1] + "…"


def printable(text: str) -> str:
    """A text whose control characters, lone surrogates and the like are escapes."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def nearest(name: str, names: Iterable[str]) -> str:
    """ "; did you mean 'threads'?" for a name that is close to one of `names`, else nothing."""
    from difflib import get_close_matches

    close = get_close_matches(name, list(names), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def check_names(what: str, given: Iterable[str], names: Iterable[str]) -> None:
    """Raises TypeError for the first name that is given and does not exist, with the nearest.

    Args:
        what: has the options, for the message.
    """
    known = set(names)
    for name in given:
        if name not in known:
            raise TypeError(f"{what} has no option {name!r}{nearest(name, sorted(known))}")


def looks_like_a_path(name: str) -> bool:
    """Whether a name can mean neither a model's short name nor owner/model on a hub."""
    whole = name.partition("@")[0]  # a revision may have any number of slashes
    return (
        whole.startswith((".", "~", "/"))
        or "\\" in whole
        or whole.strip("/").count("/") > 1
        or (whole.endswith("/"))
    )


def one_line(error: BaseException, limit: int = 160) -> str:
    """What another library's error says, in one line of at most `limit` characters: its first line
    that is not blank; where there is none, the error's type.

    A longer line keeps its two ends: what is wrong, and the value or what would be right.
    """
    lines = (" ".join(line.split()) for line in str(error).splitlines())
    line = next(filter(None, lines), "") or type(error).__name__
    half = limit // 2
    return line if len(line) <= limit else f"{line[: half - 1]}…{line[-half:]}"


def in_checkout(project: str) -> str:
    """The command that installs a part of edgespec's repository; no index has it.

    Args:
        project: its folder there, perhaps with extras: ".[server]", "export".
    """
    if (CHECKOUT / "runtimes" / "kernels" / "pyproject.toml").is_file():  # an editable install
        root = project.startswith(".")
        path = quote(f"{CHECKOUT}{project[1:]}" if root else f"{CHECKOUT}/{project}")
        return f"pip install {'-e ' if root else ''}{path}"
    path = quote(project if project.startswith(".") else f"./{project}")
    return f"pip install {path} in a checkout of edgespec"


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Replaces a ModuleNotFoundError of the block by a line that says what to install.

    Raises:
        EdgespecError: an import in the block found no such package.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        project = "export" if error.name in EXPORTER else f".[{extra}]"
        raise EdgespecError(
            f"this needs the package {error.name!r}: {in_checkout(project)}"
        ) from None
