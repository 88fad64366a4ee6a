"""What a distillation keeps beside its output, so that the same command can go on."""

from __future__ import annotations

import errno
import hashlib
import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from edgespec.artifact.staging import stamps
from edgespec.errors import EdgespecError
from edgespec_distill.plan import Plan
from edgespec_export.checkpoint.sources import Source

__all__ = ["one_line_disk", "recipe_of", "work_folder"]

# How torch's and safetensors' own writers say it, which raise no OSError.
FULL = ("PytorchStreamWriter", "inline_container", "No space left on device")


def recipe_of(source: Source, prompts: Sequence[Sequence[int]], plan: Plan) -> str:
    """What a training is made from: where it is the same, an interrupted run may go on.

    The version of edgespec is no part of it: a release that mends something else would throw an
    hour's work away. Nor is how long: an interrupted run may be given more time. Of a draft that it
    starts from, the files count, not how they are called.
    """
    words = hashlib.sha256(json.dumps(prompts).encode()).hexdigest()
    left_out = ("minutes", "steps", "start")
    kept = {name: value for name, value in asdict(plan).items() if name not in left_out}
    begun = [] if plan.start is None else [stamps(Path(plan.start))]
    return json.dumps([stamps(source.path), words, kept, *begun])


def work_folder(folder: Path, recipe: str) -> Path:
    """Where an interrupted run left its state, or a fresh folder if it was another run."""
    place = folder.resolve()
    work = place.parent / f".{place.name}.training"
    note = work / "recipe.json"
    if not (note.exists() and note.read_text(encoding="utf-8") == recipe):
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        note.write_text(recipe, encoding="utf-8")
    return work


@contextmanager
def one_line_disk(work: Path) -> Iterator[None]:
    """A full disk beside the output: what was written so far stays, for the run to go on."""
    try:
        yield
    except Exception as error:
        full = isinstance(error, OSError) and error.errno == errno.ENOSPC
        if not full and not any(words in str(error) for words in FULL):
            raise
        raise EdgespecError(
            f"the disk is full; what is done is kept in {work}: make room and give the same "
            "command again"
        ) from None
