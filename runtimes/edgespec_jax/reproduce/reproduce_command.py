"""`python -m edgespec_jax`: the paper's tables, recomputed and measured."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgespec.cli.checks import check_output_folder
from edgespec.cli.command_line import OneLineErrors
from edgespec.cli.logging_lines import logging_lines
from edgespec.errors import UsageError, needs_extra

if TYPE_CHECKING:
    from edgespec_jax.jax_weights import JaxCheckpoint
    from edgespec_jax.reproduce.table_report import Report

__all__ = ["reproduce"]

# Where examples/en_de/run leaves the English-German texts.
CORPUS = Path("build/en-de-recipe/corpus")

OUTPUT = click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    callback=check_output_folder,
    help="Also write Markdown and JSON there.",
)
TASK = click.option(
    "--task",
    type=click.Choice(["ende", "cnndm"]),
    required=True,
    help="The task of the paper that the data is compared with.",
)
DATA = click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="One text per line: a source and, after a tab, its reference; default for ende: "
    f"descriptions-valid.tsv in {CORPUS}, with descriptions.tsv for --ngrams.",
)
PAIR = click.option(
    "--pair", type=click.Path(path_type=Path), required=True, help="An exported pair."
)
NGRAMS = click.option(
    "--ngrams",
    type=click.Path(path_type=Path),
    help="Texts in which to count unigrams and bigrams; default: the references of --data.",
)
PREFIX = click.option("--prefix", default="", help="Put before each source.")
TOKENS = click.option(
    "--tokens",
    type=click.IntRange(min=1),
    default=10_000,
    show_default=True,
    help="Number of tokens to measure on.",
)
LONGEST = click.option(
    "--longest", type=click.IntRange(min=1), default=128, show_default=True, help="Text, in tokens."
)
SEED = click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
THREADS = click.option("--threads", type=click.IntRange(min=1), help="For each model.")


@click.group(cls=OneLineErrors, context_settings={"help_option_names": ["-h", "--help"]})
@click.pass_context
def reproduce(context: click.Context) -> None:
    """Reproduce the tables of Leviathan, Kalman and Matias (arXiv 2211.17192).

    \b
    Example:
      python -m edgespec_jax table1
      python -m edgespec_jax table2 --measure --divisor 8 --format fp32
      python -m edgespec_jax table3 --task ende --pair build/en-de
    """
    context.with_resource(logging_lines())


@reproduce.command()
@OUTPUT
def table1(output: Path | None) -> None:
    """Operations and speed-up at c = 0, recomputed."""
    from edgespec_jax.reproduce.computed import table1
    from edgespec_jax.reproduce.paper import read_paper

    _show(table1(read_paper()), output)


@reproduce.command()
@click.option("--measure", is_flag=True, help="Time T5 shapes on JAX's default device.")
@click.option(
    "--divisor",
    type=click.IntRange(min=1, max=16),
    default=1,
    show_default=True,
    help="Divide widths, heads and vocabulary: for a small machine.",
)
@click.option(
    "--format",
    "number_format",
    type=click.Choice(["bf16", "fp32"]),
    default="bf16",
    show_default=True,
    help="fp32 multiplies at the highest precision.",
)
@click.option(
    "--checkpoint",
    "checkpoints",
    multiple=True,
    metavar="SIZE=MODEL",
    help="Real weights: T5-XXL=google/t5-v1_1-xxl; may be repeated.",
)
@click.option("--tokens", type=click.IntRange(min=2), default=128, show_default=True)
@click.option("--texts", type=click.IntRange(min=1), default=5, show_default=True)
@click.option(
    "--row-seconds",
    type=click.FloatRange(min=0, min_open=True),
    help="A row has no further texts after so long; it has at least one.",
)
@OUTPUT
def table2(
    measure: bool,
    divisor: int,
    number_format: str,
    checkpoints: tuple[str, ...],
    tokens: int,
    texts: int,
    row_seconds: float | None,
    output: Path | None,
) -> None:
    """Speed-ups: the paper's, its formula's and, with --measure, this machine's.

    Without checkpoints the shapes get random weights, and drafted tokens are accepted at random
    with the paper's α.
    """
    from edgespec_jax.reproduce.computed import table2
    from edgespec_jax.reproduce.paper import read_paper

    paper = read_paper()
    if not measure:
        _show(table2(paper), output)
        return
    with needs_extra("jax"):
        from edgespec_jax.reproduce.table_report import write
        from edgespec_jax.reproduce.wallclock import Bench, wallclock

    opened = _opened(dict(map(_named, checkpoints)))
    bench = Bench(
        divisor,
        number_format,
        opened,
        tokens=tokens,
        texts=texts,
        row_seconds=row_seconds or math.inf,
    )
    for report in wallclock(paper, bench):
        if output is not None:
            write(report, output)
    _show(report, output)


def _alpha_command(name: str, help_: str) -> None:
    """Tables 3 and 5 take the same options."""

    @reproduce.command(name, help=help_)
    @TASK
    @DATA
    @PAIR
    @NGRAMS
    @PREFIX
    @TOKENS
    @LONGEST
    @SEED
    @THREADS
    @OUTPUT
    def command(
        task: str,
        data: Path | None,
        pair: Path,
        ngrams: Path | None,
        prefix: str,
        tokens: int,
        longest: int,
        seed: int,
        threads: int | None,
        output: Path | None,
    ) -> None:
        from edgespec_jax.reproduce import measured
        from edgespec_jax.reproduce.material import open_material
        from edgespec_jax.reproduce.paper import read_paper

        data, ngrams = _texts(task, data, ngrams)
        material = open_material(pair, data, ngrams, prefix, threads)
        effort = measured.Effort(tokens, longest, seed)
        table = {"table3": measured.table3, "table5": measured.table5}[name]
        _show(table(read_paper(), material, task, effort), output)


_alpha_command("table3", "Acceptance α of n-grams and of the pair's draft, at T = 0 and T = 1.")
_alpha_command("table5", "Acceptance α with lenience, at T = 1.")


@reproduce.command()
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    callback=check_output_folder,
    required=True,
    help="A folder that other tables were written to; the pictures go there too.",
)
def figures(output: Path) -> None:
    """Draw the tables found in a folder next to the paper's."""
    from edgespec_jax.reproduce.paper import read_paper

    with needs_extra("plots"):
        from edgespec_jax.reproduce.table_plots import TABLES, draw

    if not any((output / name).is_file() for name in TABLES):
        click.echo(f"{output} has no measured table: the pictures show the paper's", err=True)
    for path in draw(read_paper(), output):
        click.echo(path)


def _texts(task: str, data: Path | None, ngrams: Path | None) -> tuple[Path, Path | None]:
    """The files of sources and of n-grams: as given, or the corpus of the shipped pair."""
    if data is not None:
        return data, ngrams
    if task != "ende":
        raise UsageError(f"task is {task}, whose texts are not made here; give them with --data")
    data = CORPUS / "descriptions-valid.tsv"
    if not data.is_file():
        raise UsageError(
            f"{data} is not there; make it from Debian's packages with "
            f"`python examples/en_de/corpus {CORPUS}`, or give texts with --data"
        )
    return data, ngrams or CORPUS / "descriptions.tsv"


def _opened(named: Mapping[str, str]) -> dict[str, JaxCheckpoint]:
    """Checkpoints by size; random weights need nothing of the exporter."""
    if not named:
        return {}
    with needs_extra("jax"):
        from edgespec_jax.jax_checkpoint import open_jax_checkpoint

    return {size: open_jax_checkpoint(model) for size, model in named.items()}


def _named(checkpoint: str) -> tuple[str, str]:
    from edgespec_jax.reproduce.shapes import SIZES

    size, _, model = checkpoint.partition("=")
    if size not in SIZES or not model:
        raise UsageError(
            f"checkpoint is {checkpoint!r}; give SIZE=MODEL with one of: {', '.join(SIZES)}"
        )
    return size, model


def _show(report: Report, output: Path | None) -> None:
    from edgespec_jax.reproduce.table_report import write

    click.echo(report.markdown(), nl=False)
    if output is not None:
        write(report, output)
