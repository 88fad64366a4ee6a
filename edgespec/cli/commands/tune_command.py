"""`edgespec tune`: the fastest exact setting of a pair on this device."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgespec.cli.checks import check_plot
from edgespec.cli.options import (
    CHAT,
    JSON,
    LENGTH,
    PAIR,
    SAMPLING,
    TEXT,
    ThreadCount,
    in_chat_format,
)
from edgespec.cli.sample_texts import texts_of
from edgespec.device.device import CPU

if TYPE_CHECKING:
    from edgespec.core.distribution_options import Sampling

__all__ = ["tune"]

QUICK_PROMPTS, QUICK_TOKENS = 2, 32


@click.command(short_help="Find a pair's fastest setting on this device.")
@PAIR
@TEXT
@SAMPLING
@LENGTH
@click.option(
    "--threads",
    type=ThreadCount(),
    multiple=True,
    help="Default: 1 and all.",
)
@click.option(
    "--provider", "named", multiple=True, help="To try; default: all of `edgespec providers`."
)
@CHAT
@click.option(
    "--plot",
    type=click.Path(path_type=Path),
    callback=check_plot,
    help="Draw the curves (extra: plots).",
)
@click.option(
    "--quick",
    is_flag=True,
    help=f"Two prompts, {QUICK_TOKENS} tokens, the processor alone: less certain.",
)
@click.option("--dry-run", is_flag=True, help="Write no profile.")
@JSON
def tune(
    pair: str,
    text: Path | None,
    max_new_tokens: int,
    threads: tuple[int, ...],
    named: tuple[str, ...],
    chat: bool | None,
    plot: Path | None,
    quick: bool,
    dry_run: bool,
    as_json: bool,
    sampling: Sampling,
) -> None:
    """Measure PAIR on this device and remember its fastest exact setting.

    Times calls of 1 to 17 positions for every exported variant, predicts the speed-up of each
    draft from how often the target would accept it on your texts, and measures it. The profile is
    written into PAIR and used by `generate` from then on.

    \b
    Examples:
      edgespec tune build/smollm2 --quick
      edgespec tune build/smollm2 --text prompts.txt --dry-run --plot curves.png
    """
    from edgespec.artifact.manifest import read_manifest
    from edgespec.cli.render import describe_tuning, tuning_json
    from edgespec.library.pair_cache import pair_folder
    from edgespec.measure.tune import tune as measure
    from edgespec.pair.opening.profile import write_profile

    folder = pair_folder(pair)
    manifest = read_manifest(folder)
    prompts = texts_of(manifest, text)
    if quick:
        prompts, max_new_tokens = prompts[:QUICK_PROMPTS], min(max_new_tokens, QUICK_TOKENS)
        named = named or (CPU,)
    tuning = measure(
        folder,
        prompts,
        sampling=sampling,
        max_new_tokens=max_new_tokens,
        threads=threads,
        providers=named,
        chat=in_chat_format(chat, manifest),
    )
    if not dry_run:
        write_profile(tuning.profile(), folder)
    click.echo((tuning_json if as_json else describe_tuning)(tuning))
    if plot is not None:
        from edgespec.cli.plots import plot_tuning

        plot_tuning(tuning, plot)
