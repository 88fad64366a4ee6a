"""Distillation from a target's name and a file of prompts to a draft's checkpoint."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from edgespec_distill.card import RECORD, write_card
from edgespec_distill.data.training_answers import read_answers
from edgespec_distill.data.training_prompts import read_prompts
from edgespec_distill.plan import Plan, check_answers, check_plan, plan_for
from edgespec_distill.result import Distillation
from edgespec_distill.start import with_shape_of_start
from edgespec_distill.work_folder import one_line_disk, recipe_of, work_folder
from edgespec_export.checkpoint.checkpoint import open_checkpoint
from edgespec_export.checkpoint.sources import resolve
from edgespec_export.families import family_of
from edgespec_export.pairing import check_target
from edgespec_export.staging import staged

if TYPE_CHECKING:
    from edgespec_distill.training.training_loop import TrainingProgress

__all__ = ["distill"]

# Loading these takes seconds, so `distill` first checks the request. But a request that cannot be
# trained should not download a target, so importing this module fails without them.
for _package in ("torch", "transformers"):
    if find_spec(_package) is None:
        raise ModuleNotFoundError(f"No module named {_package!r}", name=_package)


def distill(
    target: str,
    text: Path | None,
    folder: Path,
    plan: Plan,
    *,
    answers: Path | None = None,
    replace: bool = False,
    report: Callable[[TrainingProgress], object] = lambda _: None,
) -> Distillation:
    """Trains a draft for `target` on what it generates after the prompts in `text`.

    Steps are logged to the logger "edgespec".

    Args:
        target: a checkpoint folder, a GGUF file, a hub id or a short name.
        text: a file with one prompt per line; None where the target writes them all.
        answers: a file with a prompt and an answer on each line, which the target reads and does
            not write; None: it writes all that is learnt.
        folder: of the draft's checkpoint; it appears when it is finished. An interrupted run keeps
            its state in a folder next to it, and the same call continues it.
        replace: replace a distilled draft in `folder`.
        report: called every few seconds of the training.

    Raises:
        EdgespecError: one line that says what is wrong; `folder` is then unchanged.
    """
    plan = with_shape_of_start(plan)
    check_plan(plan)
    if answers:
        check_answers(plan)
    source = resolve(target)
    checkpoint = open_checkpoint(source)
    family = family_of(checkpoint.config, checkpoint.label)
    if checkpoint.refusal is not None:
        raise checkpoint.refusal
    check_target(checkpoint, family)
    plan = plan_for(plan, family)
    prompts = read_prompts(text, checkpoint, plan.chat, plan.own_prompts)
    read = read_answers(answers, checkpoint, family, plan.chat) if answers else []
    recipe = recipe_of(source, prompts, plan, read)
    staging = staged(folder, replace=replace, recipe=recipe, mark=RECORD, what="a distilled draft")
    with staging as aside:
        from edgespec_distill.distillation import train_draft

        work = work_folder(folder, recipe)
        with one_line_disk(work):
            result = train_draft(source, checkpoint, prompts, read, plan, work, aside, report)
            write_card(aside, source, plan, result)
    shutil.rmtree(work)
    return result
