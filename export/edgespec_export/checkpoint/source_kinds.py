"""Sources that are not a model's own weights: adapters, and weights that another program quantized.

Each is named, with the way to a checkpoint that can be read.
"""

from __future__ import annotations

import logging
import re
from pathlib import Path

from edgespec.errors import EdgespecError, shortened
from edgespec_export.checkpoint.json_file import JsonObject, read_json_object
from edgespec_export.checkpoint.weights import Weights

__all__ = ["adapter_in", "name_adapter", "refuse_adapter", "refuse_quantized"]

ADAPTER_CONFIG = "adapter_config.json"
ADAPTER_WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")
QUANTIZED_KEYS = ("quantization_config", "quantization")  # the second is MLX's
LOADING = {"bitsandbytes", "torchao", "quanto", "hqq"}  # may quantize plain weights at loading
# The last parts of names of tensors beside quantized ones, and who writes them.
_MARKS = {
    "qweight": "GPTQ or AWQ",
    "qzeros": "GPTQ or AWQ",
    "weight_packed": "compressed-tensors",
    "weight_scale": "FP8",
    "weight_scale_inv": "FP8",
    "SCB": "bitsandbytes",
    "absmax": "bitsandbytes",
    "quant_map": "bitsandbytes",
    "scales": "MLX",
    "blocks": "MXFP4",
}
_MARK = re.compile(rf".*[._]({'|'.join(_MARKS)})")

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


def refuse_quantized(config: JsonObject, weights: Weights, label: str) -> None:
    """Raises EdgespecError if another program quantized the weights.

    A wish to quantize plain weights at loading is passed over.
    """
    keys = [key for key in QUANTIZED_KEYS if config.get(key)]
    marks = {mark[1] for name in weights.names() if (mark := _MARK.fullmatch(name))}
    method = _method(config, keys, marks)
    if method is None:
        return
    if marks or method not in LOADING:
        raise EdgespecError(
            f"{label}: its weights are quantized by {method}; take the model's unquantized "
            "checkpoint (or a GGUF file) and choose a format here, such as --target-format int4"
        )
    _log.info("%s: its weights are read as they are stored, not quantized by %s", label, method)


def _method(config: JsonObject, keys: list[str], marks: set[str]) -> str | None:
    """What quantized the weights, by the config or by the names of tensors."""
    for key in keys:
        settings = config[key]
        named = settings.get("quant_method") if isinstance(settings, dict) else None
        if isinstance(named, str):
            return named
        return "MLX" if isinstance(settings, dict) and "group_size" in settings else key
    return _MARKS[min(marks)] if marks else None
