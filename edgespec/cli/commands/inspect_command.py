"""`edgespec inspect`: what a pair consists of."""

from __future__ import annotations

import click

from edgespec.cli.options import JSON, PAIR, THREADS
from edgespec.cli.progress_lines import say

__all__ = ["inspect"]


@click.command(short_help="Show what a pair consists of, and whether it is exact.")
@PAIR
@JSON
@click.option(
    "--measure",
    is_flag=True,
    help="Test again whether the target is row-invariant on this machine, and keep the result.",
)
@click.option(
    "--measure-long",
    is_flag=True,
    help="The same with every call that can be compared: about four times as long.",
)
@click.option("--check", is_flag=True, help="Read all weights, too: are they what was exported?")
@THREADS
@click.option("--provider", help="See `edgespec providers`; default: as tuned, or the processor.")
@click.option(
    "--capacity",
    type=click.IntRange(1),
    help="Positions of a cache, for the estimate of memory; default: as `load` takes.",
)
@click.option("--texts", type=click.IntRange(1), default=1, help="That are made at once, for it.")
def inspect(
    pair: str,
    as_json: bool,
    measure: bool,
    measure_long: bool,
    check: bool,
    threads: int | None,
    provider: str | None,
    capacity: int | None,
    texts: int,
) -> None:
    """Show what an exported PAIR consists of, and whether its target is exact.

    \b
    Examples:
      edgespec inspect build/smollm2
      edgespec inspect build/smollm2 --measure --provider webgpu
    """
    from edgespec.artifact.integrity import check_weights
    from edgespec.artifact.manifest import read_manifest
    from edgespec.cli.render import describe_pair, pair_json
    from edgespec.library.pair_cache import pair_folder
    from edgespec.pair.opening.inspection import known_invariances, measured_invariances
    from edgespec.pair.opening.loading import possible_capacity
    from edgespec.pair.opening.memory_estimate import estimated_memory
    from edgespec.pair.opening.setup import LoadRequest, profile_of_this_machine, resolve_setup

    folder = pair_folder(pair)
    manifest = read_manifest(folder)
    possible = possible_capacity(manifest, capacity)
    if check:
        check_weights(folder, manifest.files)
        say("all files are as exported")
    profile = profile_of_this_machine(folder, manifest)
    request = LoadRequest(threads, provider=provider)
    if measure or measure_long:
        invariances = measured_invariances(folder, manifest, profile, request, long=measure_long)
    else:
        invariances = known_invariances(folder, manifest, profile, request)
    setup = resolve_setup(manifest, profile, request)
    formats = setup.target_format, setup.draft_format
    memory = estimated_memory(manifest, formats, possible, texts)
    click.echo((pair_json if as_json else describe_pair)(manifest, invariances, profile, memory))
