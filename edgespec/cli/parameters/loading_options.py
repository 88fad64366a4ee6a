"""Which pair a command loads, in which variant, on which provider."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from edgespec.cli.checks import check_files, check_provider
from edgespec.cli.options import THREADS, Command, together
from edgespec.cli.parameters.prompt_cache import CachePath

if TYPE_CHECKING:
    from edgespec.artifact.manifest import Manifest
    from edgespec.chat.long_conversation import Policy
    from edgespec.pair.opening.loading import LoadOptions
    from edgespec.pair.pair import Pair

__all__ = [
    "LOADING",
    "LOADINGS",
    "PROMPT_CACHE",
    "PROVIDERS",
    "VARIANTS",
    "WHEN_FULL",
    "Loading",
]


def VARIANTS(command: Command) -> Command:  # noqa: N802
    """Which variants are loaded."""
    return together(
        click.option("--target-format", help="Which exported variant; default: the first."),
        click.option("--draft-format", help="Which exported variant; default: the first."),
    )(command)


def PROVIDERS(command: Command) -> Command:  # noqa: N802
    """What runs the models."""
    return together(
        click.option(
            "--provider",
            callback=check_provider,
            help="See `edgespec providers`; default: as tuned, or the processor.",
        ),
        click.option(
            "--draft-provider",
            callback=check_provider,
            help="The draft's; default: as tuned, or the target's.",
        ),
    )(command)


@dataclass(frozen=True)
class Loading:
    """A pair that a command was given by name or path, the options of `edgespec.load`, what becomes
    of conversations that outgrow its cache (`Pair.when_full`), and where it keeps prompts, in at
    most so many bytes (`Pair.keep_prompts`)."""

    name: str
    options: LoadOptions
    when_full: Policy = "stop"
    prompt_cache: Path | None = None
    prompt_cache_bytes: int = 0

    @cached_property
    def folder(self) -> Path:
        """The exported folder; a model that was never exported is exported now."""
        from edgespec.library.pair_cache import pair_folder

        return pair_folder(self.name, self.options.get("target_format"))

    @cached_property
    def manifest(self) -> Manifest:
        from edgespec.artifact.manifest import read_manifest

        return read_manifest(self.folder)

    def to_decode(self, plainly: bool) -> LoadOptions:
        """Arguments of `edgespec.load`. Plain decoding is exact on every target, so `plainly` skips
        the test of row invariance."""
        options = self.options.copy()
        options["allow_inexact"] = plainly or options.get("allow_inexact", False)
        return options

    def pair(self, plainly: bool = False, prefix: Path | None = None) -> Pair:
        """The pair, loaded with `to_decode` and a kept prompt, which is refused before the rest."""
        from edgespec.pair.opening.loading import load

        options = self.to_decode(plainly)
        options["prefix"] = prefix
        pair = load(self.folder, **options)
        pair.when_full = self.when_full
        if self.prompt_cache is not None:
            pair.keep_prompts(self.prompt_cache, self.prompt_cache_bytes)
        return pair


def LOADING(command: Command) -> Command:  # noqa: N802
    """Options of `edgespec.load`; the command is given them as `loading`."""

    @wraps(command)
    def with_loading(pair: str, **options: object) -> object:
        for_load = _load_options(options)
        return command(loading=Loading(pair, for_load), **options)

    return _loading_options(with_loading)


def LOADINGS(command: Command) -> Command:  # noqa: N802
    """`LOADING` for a command of several pairs: they have the same options, and the command is
    given each as one of `loadings`."""

    @wraps(command)
    def with_loadings(pairs: tuple[str, ...], **options: object) -> object:
        for_load = _load_options(options)
        return command(loadings=[Loading(pair, for_load) for pair in pairs], **options)

    return _loading_options(with_loadings)


def WHEN_FULL(command: Command) -> Command:  # noqa: N802
    """What becomes of conversations that outgrow the cache; stands after `LOADING` or `LOADINGS`,
    whose pairs it is for."""

    @wraps(command)
    def with_policy(when_full: Policy, **options: Any) -> object:
        if "loading" in options:
            options["loading"] = replace(options["loading"], when_full=when_full)
        else:
            named = options["loadings"]
            options["loadings"] = [replace(loading, when_full=when_full) for loading in named]
        return command(**options)

    return click.option(
        "--when-full",
        type=click.Choice(["stop", "drop"]),
        default="stop",
        show_default=True,
        help="A conversation that outgrows the cache: refuse it, or leave its oldest turns out.",
    )(with_policy)


def PROMPT_CACHE(command: Command) -> Command:  # noqa: N802
    """Where pairs keep prompts; stands after `LOADINGS`."""

    @wraps(command)
    def with_folder(
        loadings: list[Loading],
        prompt_cache: Path | None,
        prompt_cache_mib: int,
        **options: Any,
    ) -> object:
        most = prompt_cache_mib * 2**20
        keeping = [
            replace(each, prompt_cache=prompt_cache, prompt_cache_bytes=most) for each in loadings
        ]
        return command(loadings=keeping, **options)

    return together(
        click.option(
            "--prompt-cache",
            type=CachePath(file_okay=False, path_type=Path),
            help="Keep what caches hold in this folder, also over a restart. It then holds what "
            "users wrote.",
        ),
        click.option(
            "--prompt-cache-mib",
            type=click.IntRange(min=1),
            default=1024,
            show_default=True,
            help="The most that a pair keeps there; what was not used for longest goes.",
        ),
    )(with_folder)


def _load_options(options: dict[str, object]) -> LoadOptions:
    """Takes the options of `edgespec.load` out of those of a command."""
    names = (
        *("threads", "capacity", "target_format", "draft_format"),
        *("provider", "draft_provider", "allow_inexact", "remember", "corpus"),
    )
    return cast("LoadOptions", {name: options.pop(name) for name in names})


def _loading_options(command: Command) -> Command:
    return together(
        THREADS,
        click.option("--capacity", type=int, help="Positions that a cache holds."),
        VARIANTS,
        PROVIDERS,
        click.option(
            "--allow-inexact", is_flag=True, help="Speculate on a target that is not exact."
        ),
        click.option(
            "--remember",
            type=click.Path(path_type=Path),
            help="Keep outputs in this folder, to draft later ones; see `edgespec forget`.",
        ),
        click.option(
            "--corpus",
            type=click.Path(path_type=Path),
            multiple=True,
            callback=check_files,
            help="Draft from this text file, too; may be repeated.",
        ),
    )(command)
