"""`edgespec compare`: drafts of one target next to each other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from edgespec.cli.checks import check_file, check_gamma, check_plot
from edgespec.cli.options import CHAT, JSON, PAIR, SAMPLING, TEXT, THREADS, in_chat_format
from edgespec.cli.parameters.loading_options import PROVIDERS, VARIANTS
from edgespec.cli.sample_texts import requests_of
from edgespec.errors import EdgespecError, UsageError

if TYPE_CHECKING:
    from edgespec.core.distribution_options import Sampling
    from edgespec.pair.opening.loading import LoadOptions

__all__ = ["compare"]


@click.command(short_help="Compare drafts of one target.")
@PAIR
@click.option("--drafts", multiple=True, help="Another pair with the same target; may be repeated.")
@TEXT
@click.option(
    "--prompts",
    type=click.Path(path_type=Path),
    callback=check_file,
    help="A JSON list of objects with kind, prompt and max_new_tokens, instead of --text.",
)
@SAMPLING
@click.option(
    "-n",
    "--max-new-tokens",
    type=click.IntRange(min=2),
    help="Default: 64, or what --prompts says.",
)
@click.option(
    "--gamma",
    default="auto",
    show_default=True,
    callback=check_gamma,
    help="Tokens drafted a round; auto drafts nothing where that does not pay.",
)
@click.option(
    "--repeats", type=click.IntRange(min=1), default=1, show_default=True, help="Of each prompt."
)
@CHAT
@click.option(
    "--plot",
    type=click.Path(path_type=Path),
    callback=check_plot,
    help="Draw the bars (extra: plots).",
)
@VARIANTS
@PROVIDERS
@THREADS
@JSON
def compare(
    pair: str,
    drafts: tuple[str, ...],
    text: Path | None,
    prompts: Path | None,
    max_new_tokens: int | None,
    gamma: str,
    repeats: int,
    chat: bool | None,
    plot: Path | None,
    as_json: bool,
    sampling: Sampling,
    **loading: Unpack[LoadOptions],
) -> None:
    """Compare the drafts of PAIR and of other pairs with the same target, on your texts or built-in
    prompts.

    Rows are plain decoding, prompt lookup, and each pair's draft model alone and with lookup. By
    kind of texts: the acceptance rate α, the cost c of a drafted token in plain steps, tokens a
    target call, and the median over texts of the speed over plain decoding in the same run. A text
    that differs between ways is an error. Each pair loads its own copy of the target, so memory
    grows with their number.

    \b
    Example:
      edgespec compare build/smollm2 --drafts build/other --plot drafts.png
    """
    from edgespec.artifact.manifest import read_manifest
    from edgespec.cli.render import comparison_json, describe_comparison
    from edgespec.library.pair_cache import pair_folder
    from edgespec.measure.compare import compare as measure
    from edgespec.pair.opening.runtime import machine_of
    from edgespec.pair.opening.same_target import load_same_target

    folders = [pair_folder(name) for name in dict.fromkeys([pair, *drafts])]
    manifest = read_manifest(folders[0])
    requests = requests_of(manifest, text, prompts, max_new_tokens)
    _check_drafts(folders[1:])
    pairs = load_same_target(folders, **loading)
    rows = measure(
        dict(zip(_names(folders), pairs, strict=True)),
        requests,
        sampling=sampling,
        chat=in_chat_format(chat, manifest),
        gamma=gamma,
        repeats=repeats,
    )
    measured_on = str(machine_of(pairs[0].devices[0], None))
    click.echo((comparison_json if as_json else describe_comparison)(rows, measured_on))
    if plot is not None:
        from edgespec.cli.plots import plot_comparison

        plot_comparison(rows, plot)
    for row in rows:
        if row.different:
            raise EdgespecError(
                f"{row.different} of {row.texts} texts with {row.way} are not the plain ones; "
                "please report it with the output of: edgespec inspect"
            )


def _check_drafts(folders: Sequence[Path]) -> None:
    from edgespec.artifact.manifest import read_manifest

    for folder in folders:
        if read_manifest(folder).draft is None:
            raise UsageError(f"{folder} was exported without a draft; --drafts needs one")


def _names(folders: Sequence[Path]) -> list[str]:
    """Names of rows: those of the folders, with their paths where names repeat."""
    names = [folder.name for folder in folders]
    return names if len(set(names)) == len(names) else [str(folder) for folder in folders]
