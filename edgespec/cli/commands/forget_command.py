"""`edgespec forget`: deletes remembered texts."""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["forget"]


@click.command(short_help="Delete what --remember kept.")
@click.argument("folder", type=click.Path(path_type=Path))
def forget(folder: Path) -> None:
    """Delete the texts that --remember kept in FOLDER, of every tokenizer.

    Other files stay. A process that uses the folder now still has its texts in memory.

    \b
    Example:
      edgespec forget ~/texts
    """
    from edgespec.drafters.remembered_texts import forget as delete

    files = delete(folder)
    click.echo(f"{folder}: {len(files)} {'file' if len(files) == 1 else 'files'} deleted")
