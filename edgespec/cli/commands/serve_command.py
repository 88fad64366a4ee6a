"""`edgespec serve`: pairs for programs, with the interfaces that they speak."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from edgespec.cli.ending import ending_at_sigterm
from edgespec.cli.options import DRAFTING, drafting
from edgespec.cli.parameters.loading_options import LOADINGS, PROMPT_CACHE, WHEN_FULL, Loading
from edgespec.cli.parameters.request_options import STRICT, TEXTS
from edgespec.cli.service_log import LEVELS, service_log
from edgespec.device.device import CPU
from edgespec.errors import UsageError, needs_extra, shortened

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgespec.pair.generation_options import GenerationOptions
    from edgespec.pair.pair import Pair

__all__ = ["serve"]

API_KEY = "EDGESPEC_API_KEY"

logger = logging.getLogger("edgespec.server")


@click.command(short_help="Serve pairs to programs that speak OpenAI, Anthropic or Ollama.")
@click.argument("pairs", nargs=-1, required=True, metavar="[NAME=]PAIR...")
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="The address to listen at; 0.0.0.0 for every address of this machine.",
)
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True)
@TEXTS
@click.option(
    "--queue",
    type=click.IntRange(min=0),
    default=32,
    show_default=True,
    help="Texts of a pair that may wait for their turn; more are refused (status 429).",
)
@click.option(
    "--max-body",
    type=click.IntRange(min=1),
    help="Bytes of a request (status 413 above); default: 1 MiB and 64 for each position of the "
    "cache.",
)
@click.option(
    "--max-sound",
    type=click.IntRange(min=1),
    default=100 * 2**20,
    show_default=True,
    help="Bytes of a request with a sound, for a speech pair (status 413 above).",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True, max=86400),
    default=30.0,
    show_default=True,
    help="Seconds in which a request has to arrive, and idle connections stay open.",
)
@click.option(
    "--api-key",
    envvar=API_KEY,
    show_envvar=True,
    help="Requests must bring this key (Authorization: Bearer KEY).",
)
@click.option(
    "--allow-origin",
    "origins",
    multiple=True,
    metavar="ORIGIN",
    help='Web pages of this origin may use the server (https://example.org); "*" stands for every '
    "origin, host or port (http://localhost:*); repeatable.",
)
@click.option(
    "--grace",
    type=click.FloatRange(min=0, max=86400),
    default=30.0,
    show_default=True,
    help="Seconds in which requests that run may end after SIGTERM; no other is taken meanwhile.",
)
@click.option(
    "--log-level",
    type=click.Choice(LEVELS),
    default="info",
    show_default=True,
    help="The least that is logged: info has a line for each request.",
)
@click.option(
    "--log-format",
    type=click.Choice(("text", "json")),
    default="text",
    show_default=True,
    help="Lines for people, or a JSON object a line.",
)
@click.option(
    "--log-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Add the log to this file; default: stderr.",
)
@STRICT
@DRAFTING
@LOADINGS
@PROMPT_CACHE
@WHEN_FULL
def serve(
    host: str,
    port: int,
    texts: int,
    queue: int,
    max_body: int | None,
    max_sound: int,
    timeout: float,
    api_key: str | None,
    origins: tuple[str, ...],
    grace: float,
    log_level: str,
    log_format: str,
    log_file: Path | None,
    strict: bool,
    draft: str | None,
    no_draft: bool,
    gamma: str | None,
    rule: str | None,
    loadings: list[Loading],
) -> None:
    """Answer with each PAIR as OpenAI, Anthropic and Ollama do, streamed or whole; a page to chat
    with is at the server's address.

    With several pairs a request's field "model" chooses one by its name: that of its folder, unless
    NAME= gives another. Each text is exactly the target's own, and the one that it would be alone.
    The earlier turns of the latest conversations stay in the caches. What a request does not say is
    as the model's publisher set it, else as at OpenAI.

    \b
    Examples:
      edgespec serve build/smollm2
      edgespec serve small=build/smollm2 code=build/qwen --log-format json
    """
    with needs_extra("server"):
        from edgespec.server.app import application
        from edgespec.server.http.access import key_of_requests
        from edgespec.server.http.http_server import serve as run
        from edgespec.server.http.listening import listening
        from edgespec.server.http.origins import Origins
        from edgespec.server.http.while_loading import answering_while_loading
        from edgespec.server.limits import Limits, usual_max_body

    Origins(origins)  # refused before anything is loaded
    key_of_requests(os.environ.get(API_KEY) if api_key is None else api_key)  # click skips ""
    options: GenerationOptions = {"draft": drafting(draft, no_draft), "gamma": gamma, "rule": rule}
    asked = _is_given("texts") or _is_given("capacity")
    with service_log(log_level, log_format == "json", log_file), listening(host, port) as at:
        with answering_while_loading(at), ending_at_sigterm():
            named = _named(loadings)
            pairs = {name: loading.pair(plainly=no_draft) for name, loading in named.items()}
            _check_memory(pairs, texts, asked)
            most = max(usual_max_body(pair.target.capacity) for pair in pairs.values())
            limits = Limits(texts, queue, max_body or most, timeout, max_sound)
            served = application(pairs, options, limits, host, api_key, origins, strict)
        _tell(pairs, host, at.getsockname()[1], texts)
        run(served, at, limits, grace)


def _is_given(option: str) -> bool:
    """Whether a user chose the value, on the command line, in the environment or in a file."""
    return click.get_current_context().get_parameter_source(option) != ParameterSource.DEFAULT


def _check_memory(pairs: Mapping[str, Pair], texts: int, asked: bool) -> None:
    """Says now what would end the server in the middle of long texts."""
    from edgespec.pair.opening.memory_estimate import check_memory, estimated_memory

    estimates = {
        name: estimated_memory(
            pair.manifest, pair.formats, pair.target.capacity, texts if pair.shares_calls else 1
        )
        for name, pair in pairs.items()
        if pair.parts.devices[0].provider == CPU
    }
    total = sum(estimate.total for estimate in estimates.values())
    for name, estimate in estimates.items():
        check_memory(estimate, name, asked=asked, others=total - estimate.total)


def _tell(pairs: Mapping[str, Pair], host: str, port: int, texts: int) -> None:
    """Says where the pairs are served, and what makes them slow."""
    from edgespec.device.kernels import missing_kernels
    from edgespec.server.http.listening import in_url

    for name, pair in pairs.items():
        at_once = "one text" if not pair.shares_calls else f"up to {texts} texts"
        where = f"http://{in_url(host)}:{port}/v1"
        logger.info("%s at %s, %s at a time (Ctrl-C ends)", name, where, at_once)
    if why := missing_kernels():
        logger.warning("slower than it could be: %s", why)


def _named(loadings: list[Loading]) -> dict[str, Loading]:
    """The pairs by their models' names."""
    named: dict[str, Loading] = {}
    for given in loadings:
        name, is_named, pair = given.name.partition("=")
        if not is_named or Path(given.name).exists():
            name, pair = "", given.name
        loading = replace(given, name=pair)
        name = name or loading.folder.resolve().name
        if name in named:
            raise UsageError(
                f"two pairs have the name {shortened(name)}; give one another: NAME={pair}"
            )
        named[name] = loading
    return named
