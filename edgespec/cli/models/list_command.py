"""`edgespec list` and `edgespec show`: the exported models that are kept, and what there is."""

from __future__ import annotations

import json
import math
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from shlex import quote

import click

from edgespec.artifact.hosts import describe_made_for
from edgespec.artifact.kept.used_mark import pairs_home
from edgespec.library.kept_pairs import (
    MANIFEST,
    KeptPair,
    as_json,
    bytes_of,
    find_kept,
    kept_pairs,
    read_kept,
    size,
)
from edgespec.version import VERSION

__all__ = ["list_models", "show"]

HOUR, DAY = 3600, 86_400
EXACT = {True: "yes", False: "no", None: "not tested"}
JSON = click.option("--json", "as_json_", is_flag=True, help="Print one JSON object.")


@click.command("list", short_help="List the models that are kept, or can be had.")
@click.option(
    "--available", is_flag=True, help="Those that have a short name, with size and licence."
)
@JSON
def list_models(available: bool, as_json_: bool) -> None:
    """List the exported models that are kept in the cache (EDGESPEC_HOME): their formats, size and
    last use, whether they are exact on this machine, tuned, and by which version they were made.

    \b
    Examples:
      edgespec list
      edgespec list --available
    """
    if available:
        _list_available(as_json_)
        return
    pairs = kept_pairs()
    if as_json_:
        found = {"folder": str(pairs_home()), "models": [as_json(pair) for pair in pairs]}
        click.echo(json.dumps(found))
        return
    if not pairs:
        click.echo(f"no model is kept in {pairs_home()}; edgespec list --available", err=True)
        return
    rows: list[tuple[str, ...]] = [
        ("NAME", "FORMATS", "SIZE", "LAST USED", "EXACT HERE", "TUNED", "VERSION")
    ]
    rows += [_row(pair) for pair in pairs]
    click.echo(_table(rows) if _width(rows) <= _columns() else _below_names(rows))
    _say_older(pairs)


def _row(pair: KeptPair) -> tuple[str, ...]:
    return (
        pair.name,
        "+".join(pair.formats),
        size(pair.bytes),
        _ago(pair.last_used),
        EXACT[pair.exact],
        "yes" if pair.tuned else "no",
        pair.version + (" (older)" if pair.is_older else ""),
    )


def _say_older(pairs: Sequence[KeptPair]) -> None:
    older = [pair for pair in pairs if pair.is_older]
    if older:
        room = size(sum(pair.bytes for pair in older))
        are = "1 is" if len(older) == 1 else f"{len(older)} are"
        click.echo(
            f"{are} of another version: edgespec {VERSION} exports such a model again when it "
            f"is used by its name; edgespec prune removes the old ({room})",
            err=True,
        )


def _list_available(as_json_: bool) -> None:
    from edgespec.errors import needs_extra

    with needs_extra("export"):
        from edgespec_export.known.available import available_models

    models = available_models()
    if as_json_:
        click.echo(json.dumps({"models": [vars(model) for model in models]}))
        return
    names = {model.repository: model.name for model in models}
    rows = [("NAME", "DOWNLOAD", "EXPORT", "MEMORY", "DRAFT", "LICENCE", "MODEL")]
    rows += [
        (
            model.name,
            size(model.download_bytes),
            size(model.export_bytes),
            size(model.memory_bytes),
            names[model.draft] if model.draft else "prompt lookup",
            model.licence,
            model.repository,
        )
        for model in models
    ]
    is_narrow = _width(rows) > _columns()
    click.echo(_table([row[:-1] if is_narrow else row for row in rows]))
    click.echo("sizes are about, with the draft, in int8; try: edgespec chat NAME", err=True)


@click.command(short_help="Show one exported model.")
@click.argument("name")
@JSON
def show(name: str, as_json_: bool) -> None:
    """Show an exported model: NAME is a folder, a name of `edgespec list`, its beginning, or its
    model's. What its graphs are is shown by `edgespec inspect`.

    \b
    Example:
      edgespec show smollm2
    """
    from edgespec.artifact.manifest import FORMAT_VERSION, read_manifest

    folder = Path(name)
    pair = read_kept(folder.absolute()) if (folder / MANIFEST).is_file() else find_kept(name)
    if pair.format_version == FORMAT_VERSION:
        read_manifest(Path(pair.path))  # refuses what is damaged
    parts = {
        path.name: bytes_of(path)
        for path in sorted(Path(pair.path).iterdir())
        if not path.name.startswith(".")
    }
    if as_json_:
        click.echo(json.dumps({**as_json(pair), "parts": parts}))
        return
    click.echo(
        _table(
            [
                ("name", pair.name),
                ("folder", pair.path),
                ("target", f"{pair.model} ({', '.join(pair.formats)})"),
                ("draft", _draft(pair)),
                ("made for", describe_made_for(pair.made_for)),
                ("size", f"{size(pair.bytes)}: {_parts(parts)}"),
                ("chats", "yes" if pair.chats else "no"),
                ("last used", _ago(pair.last_used)),
                ("exact here", EXACT[pair.exact]),
                ("tuned", "yes" if pair.tuned else f"no; edgespec tune {_to_name(pair)}"),
                ("made by", f"edgespec {pair.version}, format {pair.format_version}"),
            ]
        )
    )
    _say_older([pair])


def _to_name(pair: KeptPair) -> str:
    """What other commands find it by: a folder elsewhere has no name."""
    is_kept = Path(pair.path).resolve().parent == pairs_home().resolve()
    return pair.name if is_kept else quote(pair.path)


def _draft(pair: KeptPair) -> str:
    if pair.draft is None:
        return "none; prompt lookup drafts"
    return f"{pair.draft} ({', '.join(pair.draft_formats)})"


def _parts(parts: dict[str, int]) -> str:
    """The largest ones."""
    largest = sorted(parts.items(), key=lambda part: -part[1])[:4]
    return ", ".join(f"{name} {size(count)}" for name, count in largest)


def _ago(seconds: float) -> str:
    """A time for people."""
    passed = max(0.0, time.time() - seconds)
    if passed < HOUR:
        return f"{passed / 60:.0f} min ago"
    if passed < DAY:
        return f"{passed / HOUR:.0f} h ago"
    days = round(passed / DAY)
    return f"{days} day{'' if days == 1 else 's'} ago"


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    widths = _widths(rows)
    return "\n".join(
        "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _below_names(rows: Sequence[tuple[str, ...]]) -> str:
    """A table for narrow terminals: each name is a line, and the rest is below it."""
    rest = _table([row[1:] for row in rows]).splitlines()
    return "\n".join(f"{row[0]}\n  {line}" for row, line in zip(rows, rest, strict=True))


def _widths(rows: Sequence[tuple[str, ...]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*rows, strict=True)]


def _width(rows: Sequence[tuple[str, ...]]) -> int:
    widths = _widths(rows)
    return sum(widths) + 2 * (len(widths) - 1)


def _columns() -> float:
    """Of the terminal; a file has room for every line."""
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    return shutil.get_terminal_size().columns if is_terminal else math.inf
