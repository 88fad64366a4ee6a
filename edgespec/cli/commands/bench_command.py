"""`edgespec bench`: a pair's speed next to plain decoding."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from edgespec.cli.checks import check_gammas
from edgespec.cli.options import CHAT, JSON, LENGTH, PAIR, SAMPLING, TEXT, THREADS, in_chat_format
from edgespec.cli.parameters.loading_options import PROVIDERS, VARIANTS
from edgespec.cli.sample_texts import texts_of

if TYPE_CHECKING:
    from edgespec.core.distribution_options import Sampling
    from edgespec.pair.opening.loading import LoadOptions

__all__ = ["bench"]


@click.command(short_help="Time a pair next to plain decoding.")
@PAIR
@TEXT
@SAMPLING
@LENGTH
@click.option(
    "--gamma",
    multiple=True,
    default=["2", "4", "auto"],
    show_default=True,
    callback=check_gammas,
)
@click.option("--acceptance", type=float, help="Set α: machine cost without model agreement.")
@CHAT
@VARIANTS
@PROVIDERS
@THREADS
@JSON
def bench(
    pair: str,
    text: Path | None,
    max_new_tokens: int,
    gamma: tuple[str, ...],
    acceptance: float | None,
    chat: bool | None,
    as_json: bool,
    sampling: Sampling,
    **loading: Unpack[LoadOptions],
) -> None:
    """Time PAIR and plain decoding of the same target, on your texts or built-in prompts.

    \b
    Examples:
      edgespec bench build/smollm2 --gamma auto
      edgespec bench build/smollm2 --acceptance 0.7 --json
    """
    from edgespec.cli.render import bench_json, describe_bench
    from edgespec.library.pair_cache import pair_folder
    from edgespec.measure.bench import bench as time_texts
    from edgespec.measure.bench import bench_synthetic
    from edgespec.pair.opening.loading import load
    from edgespec.pair.opening.runtime import machine_of

    # Drafted tokens that are accepted by a coin make no exact text anyway.
    loading["allow_inexact"] = acceptance is not None
    loaded = load(pair_folder(pair), **loading)
    if acceptance is None:
        rows = time_texts(
            loaded,
            texts_of(loaded.manifest, text),
            sampling=sampling,
            max_new_tokens=max_new_tokens,
            gammas=gamma,
            chat=in_chat_format(chat, loaded.manifest),
        )
    else:
        fixed = [int(g) for g in gamma if g != "auto"]
        rows = bench_synthetic(loaded, acceptance, max_new_tokens=max_new_tokens, gammas=fixed)
    device, draft_device = loaded.devices
    measured_on = str(machine_of(device, draft_device if loaded.draft else None))
    click.echo((bench_json if as_json else describe_bench)(rows, measured_on))
