"""`edgespec distill`: a draft trained for a target."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from edgespec.artifact.text_file import read_lines
from edgespec.cli.options import CHAT, say
from edgespec.errors import UsageError, needs_extra

if TYPE_CHECKING:
    from edgespec_distill.plan import Distillation
    from edgespec_distill.training.training_loop import Report

__all__ = ["distill"]

# The parameters of `Plan` that are the shape of a draft.
SHAPE = ("layers", "eagle", "encoder_layers", "width", "vocabulary")
LEAST_1 = click.IntRange(min=1)
LARGE_GAP = 0.05  # in acceptance, between trained texts and held-out texts: the draft overfits


@click.command(short_help="Train a small draft for a target.")
@click.argument("target")
@click.option(
    "--text",
    type=click.Path(path_type=Path),
    required=True,
    help="A prompt on each line: what the pair will be used for.",
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="Folder to write."
)
@click.option(
    "--layers", type=LEAST_1, default=2, show_default=True, help="Of the draft's decoder."
)
@click.option(
    "--eagle",
    is_flag=True,
    help="An EAGLE head: it reads its target's hidden states. Llama-like targets.",
)
@click.option(
    "--start",
    help="Go on from a finished draft, whose shape is kept, with new prompts (your own).",
)
@click.option(
    "--encoder-layers", type=LEAST_1, help="Of its encoder, if it has one; default: as --layers."
)
@click.option("--width", type=int, help="A multiple of 16; default: the target's and its layers.")
@click.option(
    "--vocabulary",
    type=click.IntRange(min=2),
    help="Keep only this many frequent tokens; default: all.",
)
@click.option(
    "--minutes",
    type=float,
    help="How long, with what the target writes; this or --steps is required.",
)
@click.option("--steps", type=LEAST_1, help="How many steps instead: the result can be repeated.")
@click.option(
    "--loss",
    type=click.Choice(["kl", "tv"]),
    default="kl",
    show_default=True,
    help="Forward KL or total variation.",
)
@click.option("--on-policy", is_flag=True, help="Train on what the draft itself writes.")
@click.option(
    "--outputs", type=LEAST_1, default=2, show_default=True, help="Texts for each prompt."
)
@click.option("-n", "--max-new-tokens", type=LEAST_1, default=128, show_default=True)
@click.option("--positions", type=LEAST_1, default=4096, show_default=True, help="Of a batch.")
@click.option("--rate", type=float, default=1e-3, show_default=True, help="Learning rate.")
@CHAT
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--force", is_flag=True, help="Replace a distilled draft that is there already.")
def distill(target: str, text: Path, output: Path, force: bool, **plan: Any) -> None:
    """Train a small draft for TARGET on what TARGET writes after your prompts.

    TARGET is a checkpoint folder, a GGUF file, a hub id or a short name. The result is an ordinary
    checkpoint for `edgespec export`. An interrupted run goes on when it is called again.
    """
    if plan["start"] is not None:
        _check_no_shape()
    _check_before_torch(target, text)
    with needs_extra("distill"):
        from transformers.utils import logging

        from edgespec_distill.plan import Plan
        from edgespec_distill.run import distill as run

    # The warnings and bars of transformers would come between the lines of this command.
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    with _shown() as report:
        result = run(target, text, output, Plan(**plan), replace=force, say=say, report=report)
    _say_result(target, output, result)


def _check_before_torch(target: str, text: Path) -> None:
    """Raises EdgespecError for a target or a file of prompts that is missing: torch takes seconds
    to load."""
    with needs_extra("export"):
        from edgespec_export.checkpoint.sources import look_up

    look_up(target)
    read_lines(text)


def _say_result(target: str, output: Path, result: Distillation) -> None:
    before, after = result.before, result.after
    click.echo(
        f"{output}: greedy acceptance {before.greedy:.3f} → {after.greedy:.3f}, α "
        f"at temperature 1 {before.sampled:.3f} → {after.sampled:.3f}; "
        f"try: edgespec export {target} {output} -o PAIR"
    )
    if result.known and result.known > after.greedy + LARGE_GAP:
        say(
            f"on texts it was trained on greedy acceptance is {result.known:.3f}: more prompts "
            "would help more than more steps"
        )


def _check_no_shape() -> None:
    """Raises UsageError if a shape is given with --start, whose draft has a shape."""
    context = click.get_current_context()
    for name in SHAPE:
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT:
            option = "--" + name.replace("_", "-")
            raise UsageError(f"{option} is given with --start, whose shape is kept; leave it out")


@contextmanager
def _shown() -> Iterator[Callable[[Report], object]]:
    """Shows progress: a bar on a terminal, otherwise a line at every twentieth."""
    from edgespec_export.progress import fraction_bar, on_terminal

    if not on_terminal():
        yield _Lines()
        return
    with fraction_bar("training") as show:
        yield lambda report: show(report.fraction, _sentence(report))


class _Lines:
    """Prints a line whenever another twentieth is done."""

    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, report: Report) -> None:
        if report.fraction >= self._next:
            click.echo(f"{report.fraction:4.0%} {_sentence(report)}", err=True)
            self._next = report.fraction + 0.05


def _sentence(report: Report) -> str:
    return (
        f"step {report.steps}, loss {report.loss:.3f}, held-out acceptance greedy "
        f"{report.acceptance.greedy:.3f}, α {report.acceptance.sampled:.3f}, "
        f"{report.seconds_left / 60:.0f} min left"
    )
