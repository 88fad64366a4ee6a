"""Options that commands of several files share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import Field, fields
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click
from click.shell_completion import CompletionItem

from edgespec.cli.checks import (
    check_file,
    check_gamma,
    check_length,
    check_logit_bias,
    check_seed,
    check_stops,
    check_template_option,
)
from edgespec.cli.settings_file import is_from_file
from edgespec.core.distribution_options import (
    LogitEdits,
    Option,
    Sampling,
    check_option,
    options_of,
)
from edgespec.errors import UsageError

if TYPE_CHECKING:
    from edgespec.artifact.manifest import Manifest

__all__ = [
    "CHAT",
    "DRAFTER",
    "DRAFTING",
    "GENERATION",
    "JSON",
    "LANGUAGES",
    "LENGTH",
    "PAIR",
    "SAMPLING",
    "SHOWN",
    "SYSTEM",
    "TEMPERATURE",
    "TEMPLATE",
    "TEXT",
    "THREADS",
    "check_shown",
    "drafting",
    "in_chat_format",
    "number_option",
    "together",
]

Command = Callable[..., object]


class ThreadCount(click.types.IntParamType):
    """A number of threads that this machine can use; the limit depends on its cores."""

    def convert(
        self, value: object, option: click.Parameter | None, context: click.Context | None
    ) -> int:
        from edgespec.device.device import Device

        try:
            threads = int(super().convert(cast("int", value), option, context))
            Device(threads)
        except ValueError as error:  # a UsageError is one, and so are too many digits
            self.fail(str(error)[:200], option, context)
        return threads


class DrafterName(click.ParamType):  # type: ignore[type-arg]  # older versions of click have none
    """One of the drafters in the registry, which imports numpy: it is read when it is needed."""

    name = "drafter"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        return _drafter_names().convert(value, param, ctx)

    def get_metavar(self, *given: Any, **named: Any) -> str | None:
        return _drafter_names().get_metavar(*given, **named)


def _drafter_names() -> click.Choice[str]:
    from edgespec.drafters.registry import DRAFTER_NAMES

    return click.Choice(DRAFTER_NAMES)


def _complete_pair(_: click.Context, __: click.Parameter, begun: str) -> list[CompletionItem]:
    """Names of exported models in the cache, and folders."""
    from edgespec.artifact.manifest import MANIFEST
    from edgespec.library.pair_cache import pairs_home

    kept = sorted(path.parent.name for path in pairs_home().glob(f"*/{MANIFEST}"))
    named = [CompletionItem(name) for name in kept if name.startswith(begun)]
    return named or [CompletionItem(begun, type="dir")]


PAIR = click.argument("pair", shell_complete=_complete_pair)
JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
THREADS = click.option(
    "--threads",
    type=ThreadCount(),
    help="For each model; default: the physical cores.",
)
CHAT = click.option(
    "--chat/--no-chat",
    default=None,
    help="Put the model's chat format around each prompt; default: if it has one.",
)
SYSTEM = click.option("--system", help="A system prompt, instead of the chat format's own.")
TEMPLATE = click.option(
    "--template-option",
    "chat_template_kwargs",
    metavar="NAME=VALUE",
    multiple=True,
    callback=check_template_option,
    help="A value of the model's chat template, as enable_thinking=false; may be repeated.",
)
TEXT = click.option(
    "--text",
    type=click.Path(path_type=Path),
    callback=check_file,
    help="A prompt on each line; default: built-in.",
)
LENGTH = click.option(
    "-n", "--max-new-tokens", type=click.IntRange(min=2), default=64, show_default=True
)


def SAMPLING(command: Command) -> Command:  # noqa: N802
    """How a measurement samples, as the argument `sampling`: greedy unless it is told otherwise,
    whatever the model says."""

    @wraps(command)
    def sampled(**options: Any) -> object:
        own = {name: options.pop(name) for name in options_of(Sampling)}
        return command(sampling=Sampling(**own), **options)

    return together(*_options_of(Sampling, with_defaults=True))(sampled)


def _options_of(
    kind: type[Sampling | LogitEdits], with_defaults: bool = False
) -> Iterator[Callable[[Command], Command]]:
    """An option of the command line for each of a class; those without a default take the model's
    own setting, if it has one."""
    for field in fields(kind):
        if "option" in field.metadata:
            yield number_option(field, with_defaults)


def number_option(field: Field[Any], with_default: bool) -> Callable[[Command], Command]:
    """The option of the command line for a field of `Sampling` or `LogitEdits`."""
    option: Option = field.metadata["option"]
    return click.option(
        *([option.flag] if option.flag else []),
        "--" + field.name.replace("_", "-"),
        type=int if option.is_whole else float,
        default=field.default if with_default else None,
        show_default=True if with_default else option.model_sets and "the model's own",
        help=option.help,
        callback=partial(_checked, option),
    )


def _checked(
    option: Option, _: click.Context, given: click.Parameter, value: float | None
) -> float | None:
    if value is not None:
        check_option(str(given.name), option, value)
    return value


def _EDITS(command: Command) -> Command:  # noqa: N802
    """The options of `LogitEdits`."""
    return together(
        *_options_of(LogitEdits),
        click.option(
            "--logit-bias",
            metavar="TOKEN=BIAS",
            multiple=True,
            callback=check_logit_bias,
            help="Add to the logit of a token, by its id; may be repeated.",
        ),
    )(command)


TEMPERATURE = number_option(fields(Sampling)[0], with_default=True)


def DRAFTER(command: Command) -> Command:  # noqa: N802
    """What drafts, and how much; for the argument `draft` of `Pair.stream`, see `drafting`."""
    return together(
        click.option(
            "--gamma",
            callback=check_gamma,
            help="Tokens drafted a round, or auto; default: as tuned, or auto.",
        ),
        click.option(
            "--draft",
            type=DrafterName(),
            help="Default: as tuned; else both, or prompt lookup where the pair has no draft.",
        ),
        click.option("--no-draft", is_flag=True, help="Decode plainly, one token a call."),
    )(command)


def DRAFTING(command: Command) -> Command:  # noqa: N802
    """How `edgespec.Pair.stream` drafts."""
    return together(
        DRAFTER,
        click.option(
            "--rule",
            type=click.Choice(["coupled", "block", "token"]),
            help="Default: coupled when sampling, so that a seed has one text whatever drafts.",
        ),
    )(command)


def GENERATION(command: Command) -> Command:  # noqa: N802
    """Options of `edgespec.Pair.stream`; see `generation_options` for the defaults."""
    return together(
        click.option(
            "-n",
            "--max-new-tokens",
            type=int,
            callback=check_length,
            help="Default: the model's own, or 512.",
        ),
        click.option("--greedy", is_flag=True, help="Always the most probable token."),
        *_options_of(Sampling),
        _EDITS,
        click.option("--seed", type=int, callback=check_seed, help="Draws the same text again."),
        DRAFTING,
        click.option(
            "--stop",
            multiple=True,
            callback=check_stops,
            help="End before this text; may be repeated.",
        ),
    )(command)


def LANGUAGES(command: Command) -> Command:  # noqa: N802
    """The languages of a translation model that is told them."""
    return together(
        *(
            click.option(
                f"--{side}-language",
                help=f"A code such as de_DE, of {text}; default: the checkpoint's own.",
            )
            for side, text in (
                ("source", "the text, for models such as mBART"),
                ("target", "its translation"),
            )
        )
    )(command)


def drafting(draft: str | None, no_draft: bool) -> bool | str:
    """What `Pair.stream` calls `draft`."""
    if no_draft and draft and not is_from_file("draft"):
        raise UsageError("--no-draft and --draft contradict each other; give one")
    return False if no_draft else draft or True


def SHOWN(command: Command) -> Command:  # noqa: N802
    """What people or programs see of a generation; see `check_shown`."""
    return together(
        click.option("--show-draft", is_flag=True, help="Colour what the draft proposed."),
        click.option("--stats", is_flag=True, help="Show speed and acceptance."),
        JSON,
    )(command)


def check_shown(show_draft: bool, as_json: bool) -> None:
    if show_draft and as_json:
        raise UsageError("--show-draft colours text and --json prints an object; give one")


def in_chat_format(chat: bool | None, manifest: Manifest) -> bool:
    """As asked for; a chat model by default, because without its format it would continue a
    question instead of answering it."""
    return manifest.chats if chat is None else chat


def together(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Several options as one, in the order of the help text."""

    def added(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return added
