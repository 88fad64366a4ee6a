"""The command line of `edgespec distill`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from edgespec.artifact.readable_input import readable_twice
from edgespec.artifact.text_file import read_lines
from edgespec.cli.checks import check_output_folder
from edgespec.cli.options import CHAT
from edgespec.errors import UsageError, needs_extra

if TYPE_CHECKING:
    from edgespec_distill.training.training_loop import TrainingProgress

__all__ = ["distill"]

LEAST_1 = click.IntRange(min=1)
OVERFITTING = 0.05  # acceptance on training texts minus held-out texts that is worth a note


@click.command(short_help="Train a small draft for a target.")
@click.argument("target")
@click.option(
    "--text",
    type=click.Path(path_type=Path),
    help="A prompt on each line: what the pair will be used for.",
)
@click.option(
    "--own-prompts",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="N prompts that TARGET writes itself from its chat format, besides those of --text or "
    "without them.",
)
@click.option(
    "--answers",
    type=click.Path(path_type=Path),
    help='Texts that TARGET reads, which is faster than writing: {"prompt": …, '
    '"answer": …} on each line. With --eagle or --block.',
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    callback=check_output_folder,
    required=True,
    help="Folder to write.",
)
@click.option(
    "--layers", type=LEAST_1, default=2, show_default=True, help="Of the draft's decoder."
)
@click.option(
    "--eagle",
    is_flag=True,
    help="A draft that reads its target's hidden states; one layer is enough. Decoder-only and "
    "T5-like targets.",
)
@click.option(
    "--block",
    type=click.IntRange(min=2),
    help="A draft that reads them too and drafts this many tokens with one call.",
)
@click.option(
    "--start",
    help="Train a finished draft further, in its shape, on new prompts (your own).",
)
@click.option(
    "--encoder-layers", type=LEAST_1, help="Of its encoder, if it has one; default: as many."
)
@click.option(
    "--share-encoder",
    is_flag=True,
    help="A draft without an encoder, which reads its target's. T5-like targets.",
)
@click.option("--width", type=int, help="A multiple of 16; default: the target's and its layers.")
@click.option(
    "--vocabulary",
    type=click.IntRange(min=3),
    help="Keep only this many frequent tokens; default: all.",
)
@click.option(
    "--feed-forward",
    type=LEAST_1,
    help="Width of its feed-forward block; default: the target's. With --eagle or --block.",
)
@click.option(
    "--target-tables",
    is_flag=True,
    help="With --eagle: take embedding and head from TARGET, also at export; they are neither "
    "trained nor stored.",
)
@click.option(
    "--minutes",
    type=float,
    help="How long, with what the target writes; this or --steps is required.",
)
@click.option("--steps", type=LEAST_1, help="How many steps instead: the result can be repeated.")
@click.option(
    "--loss", default="kl", show_default=True, help="kl (forward), tv or mixed (of both)."
)
@click.option(
    "--target-format",
    help="Learn what TARGET writes in this number format, as its export runs: int8, int4, …; or "
    "original: the checkpoint, run by transformers. Default: int8 where kernels are installed.",
)
@click.option("--on-policy", is_flag=True, help="Train on what the draft itself writes.")
@click.option(
    "--outputs", type=LEAST_1, default=2, show_default=True, help="Texts for each prompt."
)
@click.option("-n", "--max-new-tokens", type=LEAST_1, default=128, show_default=True)
@click.option("--positions", type=LEAST_1, default=4096, show_default=True, help="Of a batch.")
@click.option("--rate", type=float, default=1e-3, show_default=True, help="Learning rate.")
@click.option(
    "--disk",
    type=float,
    default=20.0,
    show_default=True,
    metavar="GB",
    help="Most that TARGET's states take while a draft learns that reads them; others are computed "
    "again when they are read. The draft is the same.",
)
@CHAT
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--force", is_flag=True, help="Replace a distilled draft that is there already.")
def distill(
    target: str, text: Path | None, answers: Path | None, output: Path, force: bool, **plan: Any
) -> None:
    """Train a small draft for TARGET on what TARGET writes after your prompts.

    TARGET is a checkpoint folder, a GGUF file, a hub id or a short name. The result is an ordinary
    checkpoint for `edgespec export`. An interrupted run continues when it is called again.

    \b
    Example:
      edgespec distill my-model --text prompts.txt --eagle --minutes 480 -o my-draft
    """
    if plan["start"] is not None:
        _check_no_shape()
    if text is None and not plan["own_prompts"]:
        raise UsageError("give --text, or --own-prompts for a chat model: what is it trained on?")
    with _readable_twice(text) as prompts, _readable_twice(answers) as read:
        _check_before_torch(target, prompts, read)
        with needs_extra("distill"):
            from edgespec_distill.distill_draft import distill as run
            from edgespec_distill.plan import Plan

        with _progress() as report:
            found = run(
                target,
                prompts,
                output,
                Plan(**plan),
                answers=read,
                replace=force,
                report=report,
            )
    click.echo(
        f"{output}: greedy acceptance {found.before.greedy:.3f} → {found.after.greedy:.3f}, α "
        f"at temperature 1 {found.before.sampled:.3f} → {found.after.sampled:.3f}; "
        f"try: edgespec export {target} {output} -o PAIR"
    )
    if found.known and found.known > found.after.greedy + OVERFITTING:
        click.echo(
            f"on texts it was trained on greedy acceptance is {found.known:.3f}: more prompts "
            "would help more than more steps",
            err=True,
        )


def _readable_twice(file: Path | None) -> AbstractContextManager[Path | None]:
    return readable_twice(file) if file else nullcontext()


def _check_before_torch(target: str, *files: Path | None) -> None:
    """Raises EdgespecError for a target or a file of prompts or answers that is missing: torch
    takes seconds to load."""
    with needs_extra("export"):
        from edgespec_export.checkpoint.sources import look_up

    look_up(target)
    for file in files:
        if file:
            read_lines(file)


def _check_no_shape() -> None:
    """Raises UsageError if an option of the shape is given with --start."""
    with needs_extra("distill"):
        from edgespec_distill.plan import SHAPE

    context = click.get_current_context()
    for name in SHAPE:
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT:
            option = "--" + name.replace("_", "-")
            raise UsageError(
                f"{option} is given with --start, whose draft has a shape already; leave it out"
            )


@contextmanager
def _progress() -> Iterator[Callable[[TrainingProgress], object]]:
    """A progress bar on a terminal; elsewhere lines."""
    from edgespec_export.progress import fraction_bar, on_terminal

    if not on_terminal():
        yield _Lines()
        return
    with fraction_bar("training") as show:
        yield lambda progress: show(progress.fraction, _sentence(progress))


class _Lines:
    """A line after each twentieth of the training."""

    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, progress: TrainingProgress) -> None:
        if progress.fraction >= self._next:
            click.echo(f"{progress.fraction:4.0%} {_sentence(progress)}", err=True)
            self._next = progress.fraction + 0.05


def _sentence(progress: TrainingProgress) -> str:
    return (
        f"step {progress.steps}, loss {progress.loss:.3f}, held-out acceptance greedy "
        f"{progress.acceptance.greedy:.3f}, α {progress.acceptance.sampled:.3f}, "
        f"{progress.seconds_left / 60:.0f} min left"
    )
