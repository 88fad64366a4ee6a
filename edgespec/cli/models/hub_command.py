"""`edgespec pull` and `edgespec push`: exported models from a hub and to one."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import click

from edgespec.errors import UsageError
from edgespec.library.kept_pairs import MANIFEST, bytes_of, find_kept, size

__all__ = ["pull", "push"]

EVERY = 0.2  # seconds between two lines of progress
JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


@click.command(short_help="Fetch an exported model from a hub.")
@click.argument("repository")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Folder; default: one in the cache."
)
@click.option("--force", is_flag=True, help="Replace another pair that is there already.")
@JSON
def pull(repository: str, output: Path | None, force: bool, as_json: bool) -> None:
    """Fetch the exported model in REPOSITORY, as owner/name or owner/name@revision.

    The folder appears when each file has its digest. After a break the same command goes on.

    \b
    Example:
      edgespec pull owner/pair
    """
    from edgespec.library.hub_pairs import HubPair, pull_pair, pulled_folder

    pair = HubPair.named(repository)
    folder = output or pulled_folder(pair)
    fetched = pull_pair(pair, folder, replace=force, advance=_Progress().advance)
    name = folder if output else folder.name
    if as_json:
        found = {"folder": str(folder), "fetched": fetched, "bytes": bytes_of(folder)}
        click.echo(json.dumps(found))
        return
    state = size(bytes_of(folder)) if fetched else "is as on the hub"
    click.echo(f"{folder}: ready, {state}; try: edgespec show {name}", err=True)


@click.command(short_help="Send an exported model to a hub.")
@click.argument("pair")
@click.argument("repository")
@click.option("--private", is_flag=True, help="A repository that is made is a private one.")
@JSON
def push(pair: str, repository: str, private: bool, as_json: bool) -> None:
    """Send the exported model PAIR, a folder or a name of `edgespec list`, to REPOSITORY.

    All files are compared with their digests first, and come in one commit or not at all. After a
    break only what the hub lacks is sent again.

    \b
    Example:
      edgespec push build/smollm2 owner/pair --private
    """
    from edgespec.library.hub_pairs import HubPair, push_pair

    is_folder = (Path(pair) / MANIFEST).is_file()
    folder = Path(pair) if is_folder else Path(find_kept(pair).path)
    to = HubPair.named(repository)
    if to.revision is not None:
        raise UsageError("a pair is sent to the newest state of a repository; leave @ away")
    commit = push_pair(folder, to, private=private)
    sent = {"repository": to.repository, "commit": commit}
    click.echo(json.dumps(sent) if as_json else commit)


class _Progress:
    """A line on a terminal that says how far a file is."""

    def __init__(self) -> None:
        self._shown = 0.0
        self._shows = sys.stderr is not None and sys.stderr.isatty()

    def advance(self, name: str, done: int, whole: int) -> None:
        if self._shows and (time.monotonic() - self._shown > EVERY or done == whole):
            self._shown = time.monotonic()
            end = "\n" if done == whole else ""
            click.echo(f"\r\x1b[K{name}: {size(done)} of {size(whole)}{end}", nl=False, err=True)
