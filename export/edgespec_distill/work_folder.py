"""The state of an unfinished distillation, which lets the same command continue it."""

from __future__ import annotations

import errno
import hashlib
import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from edgespec.errors import EdgespecError
from edgespec_distill.plan import Plan
from edgespec_export.checkpoint.sources import Source
from edgespec_export.staging import stamps

__all__ = ["one_line_disk", "recipe_of", "work_folder"]

LAYOUT = 2  # of the files in the folder; those of another layout are not read
# In the messages of torch's and safetensors' writers, which raise no OSError for a full disk.
DISK_FULL = ("PytorchStreamWriter", "inline_container", "No space left on device")


def recipe_of(
    source: Source,
    prompts: Sequence[Sequence[int]],
    plan: Plan,
    answers: Sequence[Sequence[Sequence[int]]] = (),
) -> str:
    """Everything that determines a training: an interrupted run continues if it is the same.

    The version of edgespec is left out, so a new release does not discard an hour's work. So are
    minutes and steps, because an interrupted run may be given more time, and the disk, because the
    result does not depend on it. Of a draft to start from,
    the files are included and not the folder's name.

    Args:
        answers: texts that the target reads, a prompt and an answer each.
    """
    words = hashlib.sha256(json.dumps(prompts).encode()).hexdigest()
    left_out = ("minutes", "steps", "start", "disk")
    settings = {name: value for name, value in asdict(plan).items() if name not in left_out}
    start = [] if plan.start is None else [stamps(Path(plan.start))]
    read = [hashlib.sha256(json.dumps(answers).encode()).hexdigest()] if answers else []
    return json.dumps([LAYOUT, stamps(source.path), words, settings, *start, *read])


def work_folder(folder: Path, recipe: str) -> Path:
    """The folder of an interrupted run with this recipe, or else a new one."""
    resolved = folder.resolve()
    work = resolved.parent / f".{resolved.name}.training"
    note = work / "recipe.json"
    if not (note.exists() and note.read_text(encoding="utf-8") == recipe):
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        note.write_text(recipe, encoding="utf-8")
    return work


@contextmanager
def one_line_disk(work: Path) -> Iterator[None]:
    """One line for a full disk; the work folder stays, so the run can be continued."""
    try:
        yield
    except Exception as error:
        full = isinstance(error, OSError) and error.errno == errno.ENOSPC
        if not full and not any(words in str(error) for words in DISK_FULL):
            raise
        raise EdgespecError(
            f"the disk is full; the finished work is kept in {work}: make room and give the same "
            "command again"
        ) from None
