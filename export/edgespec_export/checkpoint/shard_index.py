"""Which file of a sharded checkpoint holds which tensor."""

from __future__ import annotations

from pathlib import Path, PurePosixPath, PureWindowsPath

from edgespec.errors import EdgespecError, shortened
from edgespec_export.checkpoint.json_file import read_json_object

__all__ = ["INDEXES", "missing_shards", "read_shard_index"]

INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")


def read_shard_index(index: Path) -> dict[str, Path]:
    """Tensor name to shard, from a Hugging Face `….index.json`.

    Raises:
        EdgespecError: no weight map, a shard outside the folder, or a missing shard.
    """
    shards = _named(index)
    for path in sorted(set(shards.values())):
        if not path.is_file():
            raise EdgespecError(
                f"{path}: missing, though {index.name} names it: download the checkpoint again"
            )
    return shards


def missing_shards(folder: Path) -> list[str]:
    """Names of files that the first index in a folder gives and that are not in it.

    Raises:
        EdgespecError: no weight map, or a shard outside the folder.
    """
    for index in (folder / name for name in INDEXES if (folder / name).is_file()):
        return sorted({path.name for path in _named(index).values() if not path.is_file()})
    return []


def _named(index: Path) -> dict[str, Path]:
    """Tensor name to shard, which may not be there."""
    weight_map = read_json_object(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise EdgespecError(f"{index}: has no 'weight_map': download it again")
    return {name: _shard(index, shard) for name, shard in weight_map.items()}


def _shard(index: Path, shard: object) -> Path:
    # Compared as text: the hub's cache consists of links, so a resolved path proves nothing.
    if (
        not isinstance(shard, str)
        or shard in ("", ".", "..")
        or PurePosixPath(shard).name != shard
        or PureWindowsPath(shard).name != shard
    ):
        raise EdgespecError(
            f"{index}: names the shard {shortened(shard)}, which is not a file in its folder"
        )
    return index.parent / shard
