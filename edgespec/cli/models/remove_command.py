"""`edgespec rm` and `edgespec prune`: exported models that are no longer wanted."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from edgespec.artifact.kept.used_mark import pairs_home
from edgespec.errors import EdgespecError, UsageError
from edgespec.library.kept_pairs import bytes_of, find_kept, kept_pairs, size

__all__ = ["prune", "rm"]

DAY = 86_400
# What an export or a pull that was cut off leaves beside the folder NAME: files, notes about them.
LEFT = (".partial", ".replaced", ".recipe", ".download")
YES = click.option("-y", "--yes", is_flag=True, help="Do not ask.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


@click.command(short_help="Remove exported models.")
@click.argument("names", nargs=-1, required=True)
@YES
@JSON
def rm(names: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Remove exported models from the cache: each of NAMES is one of `edgespec list`, its
    beginning, or its model's. Checkpoints that were downloaded stay in the hub's own cache.

    \b
    Example:
      edgespec rm smollm2
    """
    folders = {Path(find_kept(name).path): "" for name in names}
    _remove(folders, yes, as_json)


@click.command(short_help="Remove exports of other versions, and what unfinished ones left.")
@click.option(
    "--unused",
    type=click.FloatRange(min=0),
    metavar="DAYS",
    help="Also remove what no command or program has used for so many days; 0: all exports.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be removed.")
@YES
@JSON
def prune(unused: float | None, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Remove what is of no use any more: exports by other versions of edgespec, which are made
    again when their model is used by its name, and what exports that were cut off left behind. It
    says what it will remove, and asks first.

    \b
    Examples:
      edgespec prune
      edgespec prune --unused 30 --dry-run
    """
    found = {Path(pair.path): f"of {pair.version}" for pair in kept_pairs() if pair.is_older}
    if unused is not None:
        since = time.time() - unused * DAY
        found |= {
            Path(pair.path): f"not used for {(time.time() - pair.last_used) / DAY:.0f} days"
            for pair in kept_pairs()
            if pair.last_used <= since
        }
    found |= dict.fromkeys(_left_over(pairs_home()), "unfinished")
    if dry_run:
        _show(found, as_json, removed=False)
    elif found:
        _remove(found, yes, as_json)
    else:
        _show({}, as_json, removed=True)


def _left_over(home: Path) -> Iterator[Path]:
    """What belongs to exports that no process is writing."""
    if not home.is_dir():
        return
    for path in sorted(home.iterdir()):
        if path.name.startswith(".") and path.suffix in LEFT and not _is_written(path):
            yield path


def _is_written(path: Path) -> bool:
    """Whether a process is writing the folder that this belongs to."""
    lock = path.with_suffix(".lock")
    if not lock.exists():
        return False
    try:
        from filelock import FileLock, Timeout
    except ImportError:
        return True
    try:
        with FileLock(lock, timeout=0):
            return False
    except (Timeout, OSError):
        return True


def _remove(found: dict[Path, str], yes: bool, as_json: bool) -> None:
    """Asks, unless told not to, and deletes."""
    if not yes:
        if not sys.stdin or not sys.stdin.isatty() or as_json:
            raise UsageError("nothing was removed: nobody can be asked here; add --yes")
        _show(found, False, removed=False)
        if not click.confirm("Remove?", err=True):
            return
    _show(found, as_json, removed=True)
    for path in found:
        try:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        except OSError as error:
            raise EdgespecError(f"{path} cannot be removed: {error.strerror}") from None


def _show(found: dict[Path, str], as_json: bool, *, removed: bool) -> None:
    sizes = {path: bytes_of(path) for path in found}
    if as_json:
        paths = [{"path": str(path), "bytes": sizes[path], "why": found[path]} for path in found]
        click.echo(json.dumps({"removed": removed, "folders": paths}))
        return
    for path, why in found.items():
        click.echo(f"{path.name}: {size(sizes[path])}{', ' if why else ''}{why}")
    click.echo(_sum(list(sizes.values()), removed), err=True)


def _sum(sizes: Sequence[int], removed: bool) -> str:
    if not sizes:
        return "nothing to remove"
    return f"{size(sum(sizes))} {'removed' if removed else 'would be freed'}"
