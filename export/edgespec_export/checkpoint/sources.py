"""The checkpoint that a name means: a folder, a GGUF file, a model on the hub, or a short name."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from pathlib import Path

from edgespec.errors import EdgespecError, looks_like_a_path, shortened
from edgespec_export.checkpoint.gguf.gguf_names import is_gguf, part_of
from edgespec_export.checkpoint.hub import download

__all__ = ["ALIASES", "Reference", "Source", "look_up", "resolve"]

_T5_SIZES = ("small", "base", "large", "xl", "xxl")

ALIASES = {
    **{f"t5-{size}": f"google/t5-v1_1-{size}" for size in _T5_SIZES},
    **{f"flan-t5-{size}": f"google/flan-t5-{size}" for size in _T5_SIZES},
    **{f"mt5-{size}": f"google/mt5-{size}" for size in _T5_SIZES},
    **{f"byt5-{size}": f"google/byt5-{size}" for size in _T5_SIZES},
    **{f"madlad400-{size}": f"google/madlad400-{size}-mt" for size in ("3b", "7b", "10b")},
    **{
        f"smollm2-{size.lower()}": f"HuggingFaceTB/SmolLM2-{size}-Instruct"
        for size in ("135M", "360M", "1.7B")
    },
    **{
        f"qwen2.5-{size.lower()}": f"Qwen/Qwen2.5-{size}-Instruct"
        for size in ("0.5B", "1.5B", "3B", "7B", "14B", "32B", "72B")
    },
    **{
        f"qwen3-{size.lower()}": f"Qwen/Qwen3-{size}"
        for size in ("0.6B", "1.7B", "4B", "8B", "14B", "32B")
    },
    **{
        f"gemma3-{size}": f"google/gemma-3-{size}-it" for size in ("270m", "1b", "4b", "12b", "27b")
    },
    **{
        f"llama{size.lower()}": f"meta-llama/Llama-{size}-Instruct"
        for size in ("3.2-1B", "3.2-3B", "3.1-8B", "3.1-70B", "3.3-70B")
    },
}

_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth")
_KINDS = "edgespec reads safetensors, PyTorch's and CTranslate2's folders, and GGUF files"
_HUB_ID = re.compile(r"(?P<repository>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w./-]+))?", re.ASCII)


@dataclass(frozen=True)
class Source:
    """Where a checkpoint is.

    Attributes:
        path: a folder, or a GGUF file.
        label: the name and its meaning, for messages: "t5-xxl → google/t5-v1_1-xxl".
        adapter: the folder of an adapter that is merged into the weights.
    """

    path: Path
    label: str
    adapter: Path | None = None


@dataclass(frozen=True)
class Reference:
    """The checkpoint that a name refers to, before anything is downloaded.

    Attributes:
        path: a checkpoint on this machine; None for a model on the hub.
        repository: the hub id of a model on the hub; empty for a checkpoint on this machine.
        revision: a branch, tag or commit; None for the newest.
        label: as `Source.label`.
    """

    path: Path | None
    repository: str
    revision: str | None
    label: str


def look_up(name: str) -> Reference:
    """The checkpoint that a name refers to; nothing is downloaded.

    An existing path comes first, but a folder without `config.json` does not hide a short name or
    a hub id. A folder with one GGUF file is that file. Short names and hub ids take `@revision`: a
    branch, tag or commit.

    Raises:
        EdgespecError: nothing has that name.
    """
    if not name:
        raise EdgespecError("the name of the model is empty: no such folder or hub id")
    path = Path(name).expanduser()
    try:
        is_file = path.is_file()
    except (OSError, ValueError):  # too long for a path, or a NUL character
        raise _unknown(name) from None
    if is_file:
        return _file(path)
    if (path / "config.json").is_file():
        return Reference(path, "", None, name)
    short, _, revision = name.partition("@")
    repository = ALIASES.get(short.lower())
    if repository is not None:
        label = f"{name} → {repository}" + (f"@{revision}" if revision else "")
        return Reference(None, repository, revision or None, label)
    if path.is_dir():
        return Reference(_gguf_in(path) or path, "", None, name)
    match = _HUB_ID.fullmatch(name)
    if match is None or path.suffix.lower() == ".gguf" or looks_like_a_path(name):
        raise _unknown(name)
    return Reference(None, match["repository"], match["revision"], name)


def resolve(name: str, adapter: str | None = None) -> Source:
    """Finds a checkpoint by name (see `look_up`) and downloads it if it is on the hub.

    Args:
        adapter: the name of an adapter for it, likewise.

    Raises:
        EdgespecError: nothing has that name, or it cannot be downloaded.
    """
    found = look_up(name)
    path = found.path or download(found.repository, found.revision)
    if adapter is None:
        return Source(path, found.label)
    changes = resolve(adapter)
    return Source(path, f"{found.label} + {changes.label}", changes.path)


def _file(path: Path) -> Reference:
    """A GGUF file of any name: Ollama's files are named by their digests."""
    if path.suffix.lower() != ".gguf" and not is_gguf(path):
        way = f"give its folder, {path.parent}" if path.suffix in _WEIGHTS else _KINDS
        raise EdgespecError(f"{path}: is a file, not a checkpoint folder or a GGUF file; {way}")
    return Reference(path, "", None, str(path))


def _gguf_in(folder: Path) -> Path | None:
    """The model in a folder without a config: its only GGUF file, or the first of its parts.

    Raises:
        EdgespecError: it has several models.
    """
    files = sorted(path for path in folder.iterdir() if path.suffix.lower() == ".gguf")
    models = [path for path in files if part_of(path) in (None, 1)]
    if len(models) > 1:
        names = ", ".join(path.name for path in models[:5])
        raise EdgespecError(
            f"{folder}: has {len(models)} GGUF files and no config.json: name one of them ({names})"
        )
    return models[0] if models else None


def _unknown(name: str) -> EdgespecError:
    if looks_like_a_path(name):
        return EdgespecError(f"{shortened(name, limit=200)}: no such folder or .gguf file")
    close = difflib.get_close_matches(name.lower(), ALIASES, n=3)
    hint = f"close: {', '.join(close)}" if close else "such as google/flan-t5-small"
    return EdgespecError(
        f"{shortened(name, limit=200)}: no such folder or .gguf file, short name or hub id "
        f"owner/model ({hint})"
    )
