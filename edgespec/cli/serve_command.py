"""The command line of `edgespec serve`."""

from __future__ import annotations

import click

from edgespec.cli.cli_errors import one_line_errors
from edgespec.cli.options import DRAFTING, LOADING, PAIR, Loading, drafting, say
from edgespec.errors import needs_extra

__all__ = ["serve"]


@click.command(short_help="Serve a pair to programs, as OpenAI's servers do.")
@PAIR
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at.")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True)
@DRAFTING
@LOADING
def serve(
    host: str,
    port: int,
    draft: str | None,
    no_draft: bool,
    gamma: str | None,
    rule: str | None,
    loading: Loading,
) -> None:
    """Answer OpenAI's chat completions and completions with PAIR, streamed or whole.

    Each text is exactly the target's own. Requests wait for each other; the earlier turns of the
    latest conversation stay in the cache.
    """
    with one_line_errors():
        with needs_extra("server"):
            from edgespec.server.app import in_url, listening, server
            from edgespec.server.app import serve as run

        options = {"draft": drafting(draft, no_draft), "gamma": gamma, "rule": rule}
        with listening(host, port) as at:
            pair = loading.pair(plainly=no_draft)
            port = at.getsockname()[1]
            name = loading.folder.resolve().name
            say(f"{name} at http://{in_url(host)}:{port}/v1 (Ctrl-C ends)")
            run(server(pair, name, options, host), at)
