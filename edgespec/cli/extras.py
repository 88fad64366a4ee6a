"""What a device does not need is installed by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from edgespec.errors import EdgespecError

__all__ = ["needs_extra"]


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Says how to install an extra where an import inside finds it missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise EdgespecError(
            f"this needs the package {error.name!r}: pip install 'edgespec[{extra}]'"
        ) from None
