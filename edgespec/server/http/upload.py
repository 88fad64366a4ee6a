"""A form with a file, never more of it than the limit."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.types import Message

from edgespec.errors import UsageError, shortened
from edgespec.server.http.body import BodyTimeoutError, checked_size

__all__ = ["Upload", "uploaded"]

MOST_FIELDS = 64


class Upload(NamedTuple):
    """A form: the file, which is there until the form is left, and the values of each field."""

    file: Path
    fields: Mapping[str, Sequence[str]]


@asynccontextmanager
async def uploaded(http: HttpRequest, max_bytes: int, timeout: float) -> AsyncIterator[Upload]:
    """The form of a request, whose field "file" is a file.

    Raises:
        BodySizeError: it is larger than the limit.
        BodyTimeoutError: it was not complete in time.
        UsageError: it is no form, or has no file.
    """
    given = http.headers.get("content-type", "")
    if given.partition(";")[0].strip().lower() != "multipart/form-data":
        raise UsageError(
            f"the request's Content-Type is {shortened(given)}, no form; send multipart/form-data"
        )
    limited = HttpRequest(http.scope, _Limited(http, max_bytes))
    try:
        async with asyncio.timeout(timeout):
            form = await limited.form(max_files=1, max_fields=MOST_FIELDS)
    except TimeoutError:
        raise BodyTimeoutError(
            f"the body did not arrive within {timeout:g} s; send it faster, or start the server "
            "with a longer --timeout"
        ) from None
    except HTTPException as error:
        raise UsageError(f"the form cannot be read: {shortened(error.detail)[1:-1]}") from None
    folder = Path(tempfile.mkdtemp(prefix="edgespec-"))
    try:
        file = form.get("file")
        if not isinstance(file, UploadFile):
            raise UsageError("file is not in the form; send the sound as the field 'file'")
        path = folder / f"sound{_extension(file.filename)}"
        await asyncio.to_thread(_copy, file, path)
        names = {name for name, value in form.multi_items() if isinstance(value, str)}
        yield Upload(path, {name: [str(v) for v in form.getlist(name)] for name in names})
    finally:
        await form.close()
        shutil.rmtree(folder, ignore_errors=True)


def _copy(file: UploadFile, path: Path) -> None:
    file.file.seek(0)
    with path.open("wb") as out:
        shutil.copyfileobj(file.file, out)


def _extension(name: str | None) -> str:
    """That of the client's name for the file, if it is a plain one; some readers go by it."""
    extension = os.path.splitext(name or "")[1].lower()
    return extension if extension[1:].isalnum() and extension.isascii() else ""


class _Limited:
    """Receives a request's body up to a limit."""

    def __init__(self, http: HttpRequest, max_bytes: int) -> None:
        self._http = http
        self._max = max_bytes
        self._size = 0
        checked_size(http, max_bytes, "--max-sound")

    async def __call__(self) -> Message:
        message = await self._http.receive()
        self._size += len(message.get("body", b""))
        checked_size(self._size, self._max, "--max-sound")
        return message
