"""Folders with an adapter (LoRA and similar) in place of a model, or beside one."""

from __future__ import annotations

import logging
from pathlib import Path

from edgespec.errors import EdgespecError, shortened
from edgespec_export.checkpoint.json_file import JsonObject, read_json_object
from edgespec_export.checkpoint.safetensors_file import Safetensors
from edgespec_export.checkpoint.torch_file import TorchBin
from edgespec_export.checkpoint.weights import Weights

__all__ = ["adapter_settings", "adapter_weights", "base_name", "name_adapter", "refuse_adapter"]

CONFIG = "adapter_config.json"
SAFETENSORS, TORCH = "adapter_model.safetensors", "adapter_model.bin"

_log = logging.getLogger("edgespec")


def adapter_settings(folder: Path) -> JsonObject:
    """The config of an adapter.

    Raises:
        EdgespecError: the folder has none.
    """
    path = folder / CONFIG
    if not path.is_file():
        raise EdgespecError(f"{folder}: is no folder of an adapter: it has no {CONFIG}")
    return read_json_object(path)


def adapter_weights(folder: Path) -> Weights:
    """The tensors of an adapter.

    Raises:
        EdgespecError: the folder has none, or their file is corrupt.
    """
    if (folder / SAFETENSORS).is_file():
        return Safetensors(folder / SAFETENSORS)
    if (folder / TORCH).is_file():
        return TorchBin(folder / TORCH)
    raise EdgespecError(f"{folder}: is an adapter without weights: it has no {SAFETENSORS}")


def refuse_adapter(folder: Path, label: str) -> None:
    """Raises EdgespecError if a folder without a model of its own holds an adapter."""
    if _is_adapter(folder):
        name = _named(folder)
        raise EdgespecError(
            f"{label}: is an adapter{f' of {shortened(name)}' if name else ''}, not a model: give "
            f"its model as TARGET: edgespec export {name or 'TARGET'} --adapter {label}"
        )


def name_adapter(folder: Path, label: str) -> None:
    """Logs that an adapter beside a model's weights is not applied."""
    if _is_adapter(folder):
        name = _named(folder)
        _log.warning(
            "%s: has an adapter%s beside its weights, which is not applied; --adapter %s applies "
            "it",
            *(label, f" of {shortened(name)}" if name else "", folder),
        )


def base_name(settings: JsonObject) -> str:
    """The name of the model that an adapter was trained on; empty if its config has none."""
    base = settings.get("base_model_name_or_path")
    return base if isinstance(base, str) else ""


def _is_adapter(folder: Path) -> bool:
    return any((folder / name).is_file() for name in (CONFIG, SAFETENSORS, TORCH))


def _named(folder: Path) -> str:
    path = folder / CONFIG
    return base_name(read_json_object(path)) if path.is_file() else ""
