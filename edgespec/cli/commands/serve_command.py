"""`edgespec serve`: a pair for programs, with OpenAI's interface."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from edgespec.cli.options import DRAFTING, LOADING, PAIR, TEXTS, Loading, drafting, say
from edgespec.errors import UsageError, needs_extra

if TYPE_CHECKING:
    from edgespec.pair.generation import GenerationOptions

__all__ = ["serve"]


@click.command(short_help="Serve a pair to programs, with OpenAI's interface.")
@PAIR
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
    help="Requests that may wait for their turn; more are refused (status 429).",
)
@click.option(
    "--max-body",
    type=click.IntRange(min=1),
    help="Bytes of a request (status 413 above); default: 1 MiB and 64 for each position of the "
    "cache.",
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
    envvar="EDGESPEC_API_KEY",
    show_envvar=True,
    help="Requests must bring this key (Authorization: Bearer KEY).",
)
@click.option(
    "--allow-origin",
    "origins",
    multiple=True,
    metavar="ORIGIN",
    help="Web pages of this origin may use the server (https://example.org); repeatable.",
)
@DRAFTING
@LOADING
def serve(
    host: str,
    port: int,
    texts: int,
    queue: int,
    max_body: int | None,
    timeout: float,
    api_key: str | None,
    origins: tuple[str, ...],
    draft: str | None,
    no_draft: bool,
    gamma: str | None,
    rule: str | None,
    loading: Loading,
) -> None:
    """Answer OpenAI's chat completions and completions with PAIR, streamed or whole.

    Each text is exactly the target's own, and the one that it would be alone. The earlier turns of
    the latest conversations stay in the caches. What a request does not say is as the model's
    publisher set it, else as at OpenAI.
    """
    with needs_extra("server"):
        from edgespec.server.app import application
        from edgespec.server.http_server import serve as run
        from edgespec.server.limits import Limits, usual_max_body
        from edgespec.server.listening import in_url, listening

    options: GenerationOptions = {"draft": drafting(draft, no_draft), "gamma": gamma, "rule": rule}
    if loading.manifest.target.hears:
        raise UsageError(
            f"{loading.name} makes text of sound, and requests have none; use: edgespec transcribe"
        )
    with listening(host, port) as at:
        pair = loading.pair(plainly=no_draft)
        limits = Limits(texts, queue, max_body or usual_max_body(pair.target.capacity), timeout)
        port = at.getsockname()[1]
        name = loading.folder.resolve().name
        at_once = "one request" if not pair.shares_calls else f"up to {texts} requests"
        say(f"{name} at http://{in_url(host)}:{port}/v1, {at_once} at a time (Ctrl-C ends)")
        run(application(pair, name, options, limits, host, api_key, origins), at, limits)
