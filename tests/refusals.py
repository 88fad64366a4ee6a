"""One-line errors, and damaged files: what tests of refusals share.

A `UsageError` is what the caller can mend by asking differently; any other `EdgespecError` is about
a file, a model or a machine.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import edgespec
from edgespec import EdgespecError, UsageError
from edgespec.artifact.manifest import Manifest
from edgespec.pair.opening.invariance_cache import INVARIANCE_FILE
from edgespec_export.export_pair import export_pair

DECODER = "target/fp32/decoder.onnx"
DRAFT = "draft/fp32/decoder.onnx"
WEIGHTS = "target/fp32/weights.data"
DRAFT_WEIGHTS = "draft/fp32/weights.data"
PROMPT = "abc"


def failure(action, *arguments, **options) -> str:
    """The line of an `EdgespecError` that is not the caller's fault."""
    with pytest.raises(EdgespecError) as caught:
        action(*arguments, **options)
    assert not isinstance(caught.value, UsageError), caught.value
    return one_line(str(caught.value))


def usage(action, *arguments, **options) -> str:
    """The line of a `UsageError`."""
    with pytest.raises(UsageError) as caught:
        action(*arguments, **options)
    return one_line(str(caught.value))


def one_line(message: str) -> str:
    assert message
    assert "\n" not in message
    assert len(message) < 1000
    return message


def load(folder) -> edgespec.Pair:
    return edgespec.load(folder, threads=1)


def export(target, draft, folder, **options) -> Manifest:
    return export_pair(str(target), draft and str(draft), folder, threads=1, **options)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, hidden ones too, but for results of later measurements."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != INVARIANCE_FILE
    }


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def scrambled(path: Path) -> None:
    path.write_bytes(bytes(reversed(path.read_bytes())))


DAMAGES = [Path.unlink, truncated, emptied, scrambled]
