"""Folders with an adapter (LoRA and similar) in place of a model, or beside one."""

from __future__ import annotations

import logging
from pathlib import Path

from edgespec.errors import EdgespecError, shortened
from edgespec_export.checkpoint.json_file import read_json_object

__all__ = ["adapter_in", "name_adapter", "refuse_adapter"]

ADAPTER_CONFIG = "adapter_config.json"
ADAPTER_WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")

_log = logging.getLogger("edgespec")


def adapter_in(folder: Path) -> bool:
    """Whether a folder holds an adapter (LoRA and similar)."""
    return any((folder / name).is_file() for name in (ADAPTER_CONFIG, *ADAPTER_WEIGHTS))


def refuse_adapter(folder: Path, label: str) -> None:
    """Raises EdgespecError if a folder without a model of its own holds an adapter."""
    if adapter_in(folder):
        base = _base(folder)
        raise EdgespecError(
            f"{label}: is an adapter{base}, not a model: merge the two (peft's merge_and_unload), "
            "save the result with save_pretrained and export that folder"
        )


def name_adapter(folder: Path, label: str) -> None:
    """Logs that an adapter beside a model's weights is not applied."""
    if adapter_in(folder):
        _log.warning(
            "%s: has an adapter%s beside its weights, which is not applied; merge it first if it "
            "is wanted",
            label,
            _base(folder),
        )


def _base(folder: Path) -> str:
    path = folder / ADAPTER_CONFIG
    settings = read_json_object(path) if path.is_file() else {}
    base = settings.get("base_model_name_or_path")
    return f" of {shortened(base)}" if isinstance(base, str) and base else ""
