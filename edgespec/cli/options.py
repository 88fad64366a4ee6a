"""Options that commands of several files share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgespec.drafters.registry import DRAFTER_NAMES
from edgespec.errors import UsageError

if TYPE_CHECKING:
    from edgespec.artifact.manifest import Manifest
    from edgespec.pair.pair import Pair

__all__ = [
    "CHAT",
    "DRAFTING",
    "GENERATION",
    "JSON",
    "LOADING",
    "PAIR",
    "PROVIDERS",
    "SAMPLING",
    "SHOWN",
    "SYSTEM",
    "THREADS",
    "VARIANTS",
    "Loading",
    "check_shown",
    "drafting",
    "say",
]

Command = Callable[..., Any]

PAIR = click.argument("pair", type=click.Path(path_type=Path))
JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
THREADS = click.option(
    "--threads", type=click.IntRange(min=1), help="For each model; default: the physical cores."
)
CHAT = click.option(
    "--chat/--no-chat",
    default=None,
    help="Put the model's chat format around each prompt; default: if it has one.",
)
SYSTEM = click.option("--system", help="A system prompt, instead of the chat format's own.")


def SAMPLING(command: Command) -> Command:  # noqa: N802
    """The options of `edgespec.core.distribution.Sampling`."""
    return _with(
        click.option("-t", "--temperature", type=float, default=0.0, show_default="0, greedy"),
        click.option("--top-k", type=int, default=0, help="Keep the k most probable tokens."),
        click.option("--top-p", type=float, default=1.0, help="Keep the most probable mass."),
        click.option("--min-p", type=float, default=0.0, help="Keep this fraction of the best."),
    )(command)


def DRAFTING(command: Command) -> Command:  # noqa: N802
    """How `edgespec.Pair.stream` drafts; for its draft, see `drafting`."""
    return _with(
        click.option(
            "--gamma", help="Tokens drafted a round, or auto; default: as tuned, or auto."
        ),
        click.option(
            "--draft",
            type=click.Choice(DRAFTER_NAMES),
            help="Default: as tuned; else both, or prompt lookup where the pair has no draft.",
        ),
        click.option("--no-draft", is_flag=True, help="Decode plainly, one token a call."),
        click.option(
            "--rule", type=click.Choice(["block", "token"]), help="Default: block when sampling."
        ),
    )(command)


def GENERATION(command: Command) -> Command:  # noqa: N802
    """Options of `edgespec.Pair.stream`."""
    return _with(
        click.option("-n", "--max-new-tokens", type=int, help="Default: to the end of the text."),
        SAMPLING,
        click.option("--seed", type=int, help="Draws the same text again."),
        DRAFTING,
        click.option("--stop", multiple=True, help="End before this text; may be repeated."),
    )(command)


def drafting(draft: str | None, no_draft: bool) -> bool | str:
    """What `Pair.stream` calls `draft`."""
    if no_draft and draft:
        raise UsageError("--no-draft and --draft contradict each other; give one")
    return False if no_draft else draft or True


def VARIANTS(command: Command) -> Command:  # noqa: N802
    """Which variants are loaded."""
    return _with(
        click.option("--target-format", help="Which exported variant; default: the first."),
        click.option("--draft-format", help="Which exported variant; default: the first."),
    )(command)


def PROVIDERS(command: Command) -> Command:  # noqa: N802
    """What runs the models."""
    return _with(
        click.option(
            "--provider",
            help="See `edgespec providers`; default: as tuned, or the processor.",
        ),
        click.option("--draft-provider", help="The draft's; default: as tuned, or the target's."),
    )(command)


@dataclass(frozen=True)
class Loading:
    """A pair that a command was given, and how to load it."""

    folder: Path
    options: dict[str, Any]

    def manifest(self) -> Manifest:
        from edgespec.artifact.manifest import read_manifest

        return read_manifest(self.folder)

    def pair(self, plainly: bool = False) -> Pair:
        """The pair, loaded; one that is only to decode plainly needs no verdict."""
        from edgespec import load

        options = {**self.options, "allow_inexact": self.options["allow_inexact"] or plainly}
        return load(self.folder, **options)


def LOADING(command: Command) -> Command:  # noqa: N802
    """Options of `edgespec.load`; the command is given them as `loading`."""
    named = (
        *("threads", "capacity", "target_format", "draft_format"),
        *("provider", "draft_provider", "allow_inexact"),
    )

    @wraps(command)
    def with_loading(pair: Path, **options: Any) -> Any:
        loading = Loading(pair, {name: options.pop(name) for name in named})
        return command(loading=loading, **options)

    return _with(
        THREADS,
        click.option("--capacity", type=int, help="Positions that a cache holds."),
        VARIANTS,
        PROVIDERS,
        click.option(
            "--allow-inexact", is_flag=True, help="Speculate on a target that is not exact."
        ),
    )(with_loading)


def SHOWN(command: Command) -> Command:  # noqa: N802
    """What people or programs see of a generation; see `check_shown`."""
    return _with(
        click.option("--show-draft", is_flag=True, help="Colour what the draft proposed."),
        click.option("--stats", is_flag=True, help="Show speed and acceptance."),
        JSON,
    )(command)


def check_shown(show_draft: bool, as_json: bool) -> None:
    if show_draft and as_json:
        raise UsageError("--show-draft colours text and --json is none; give one")


def say(line: str) -> None:
    """What takes long, beside the output."""
    click.echo(line, err=True)


def _with(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Several options as one, in the order of the help text."""

    def added(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return added
