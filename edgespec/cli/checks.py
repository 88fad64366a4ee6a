"""Callbacks that refuse an option's value before a model is looked for, exported or loaded."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Sequence
from pathlib import Path

import click

from edgespec.artifact.writing.stream_output import STANDARD
from edgespec.errors import UsageError, needs_extra, shortened

__all__ = [
    "check_cache_formats",
    "check_file",
    "check_files",
    "check_formats",
    "check_gamma",
    "check_gammas",
    "check_length",
    "check_logit_bias",
    "check_output_folder",
    "check_plot",
    "check_provider",
    "check_seed",
    "check_stops",
    "check_template_option",
]


def check_logit_bias(
    context: click.Context, option: click.Parameter, values: Sequence[str]
) -> dict[int, float] | None:
    """Each TOKEN=BIAS, as `LogitEdits.logit_bias`; None without any."""
    from edgespec.core.distribution_options import LogitEdits

    biases: dict[int, float] = {}
    for value in values:
        token, _, bias = value.partition("=")
        try:
            biases[int(token)] = float(bias)
        except ValueError:
            raise UsageError(
                f"--logit-bias is {shortened(value)}; give a token id and a number, as 1234=-100"
            ) from None
    LogitEdits(logit_bias=biases)
    return biases or None


def check_template_option(
    context: click.Context, option: click.Parameter, values: Sequence[str]
) -> dict[str, object] | None:
    """Each NAME=VALUE, as `chat_template_kwargs`; a value that is no JSON is a text. None without
    any."""
    from edgespec.chat.chat_template import check_template_options

    options: dict[str, object] = {}
    for value in values:
        name, equals, written = value.partition("=")
        if not equals:
            raise UsageError(
                f"--template-option is {shortened(value)}; give a name and a value, as "
                "enable_thinking=false"
            )
        try:
            options[name] = json.loads(written)
        except (ValueError, RecursionError):
            options[name] = written
    check_template_options(options)
    return options or None


def check_seed(_: click.Context, __: click.Parameter, value: int | None) -> int | None:
    from edgespec.core.randomness import Seeded

    Seeded(value)
    return value


def check_length(_: click.Context, __: click.Parameter, value: int | None) -> int | None:
    from edgespec.pair.generation_request import check_max_new_tokens

    check_max_new_tokens(value)
    return value


def check_gamma(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    if value is not None:
        _check_gamma(value)
    return value


def check_gammas(_: click.Context, __: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    for gamma in value:
        _check_gamma(gamma)
    return value


def _check_gamma(gamma: str) -> None:
    from edgespec.costs.controller import gamma_number

    if gamma != "auto":
        gamma_number(gamma)


def check_stops(_: click.Context, __: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    from edgespec.pair.tokenizer import check_stop_strings

    check_stop_strings(value)
    return value


def check_file(_: click.Context, __: click.Parameter, value: Path | None) -> Path | None:
    if value is not None and value != STANDARD and not value.exists():
        raise UsageError(f"{value} cannot be read: {os.strerror(errno.ENOENT)}")
    return value


def check_files(
    context: click.Context, option: click.Parameter, value: tuple[Path, ...]
) -> tuple[Path, ...]:
    for file in value:
        check_file(context, option, file)
    return value


def check_output_folder(_: click.Context, __: click.Parameter, value: Path | None) -> Path | None:
    """A folder that can be made or written into."""
    if value is not None and (str(value) == "-" or (value.exists() and not value.is_dir())):
        raise UsageError(f"{value} is no folder; give -o a folder, which is made if it is missing")
    return value


def check_plot(_: click.Context, __: click.Parameter, value: Path | None) -> Path | None:
    """A picture that can be drawn: what it shows takes minutes to measure."""
    if value is not None:
        from edgespec.cli.plots import check_picture

        check_picture(value)
    return value


def check_provider(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    from edgespec.pair.opening.runtime import provider_name

    if value is not None:
        provider_name(value)
    return value


def check_formats(
    _: click.Context, option: click.Parameter, value: tuple[str, ...]
) -> tuple[str, ...] | None:
    """Number formats that the exporter knows; None if none was given."""
    with needs_extra("export"):
        from edgespec_export.quantization.activations.qdq import QDQ_FORMATS
        from edgespec_export.quantization.formats import FORMATS

    what = "draft format" if option.name == "draft_formats" else "target format"
    return _known(what, value, (*FORMATS, *QDQ_FORMATS))


def check_cache_formats(
    _: click.Context, __: click.Parameter, value: tuple[str, ...]
) -> tuple[str, ...] | None:
    with needs_extra("export"):
        from edgespec_export.components.attention.cache_formats import CACHE_FORMATS

    return _known("cache format", value, tuple(CACHE_FORMATS))


def _known(what: str, given: tuple[str, ...], known: Sequence[str]) -> tuple[str, ...] | None:
    for name in given:
        if name not in known:
            raise UsageError(f"no {what} {shortened(name)}; there is: {', '.join(known)}")
    return given or None
