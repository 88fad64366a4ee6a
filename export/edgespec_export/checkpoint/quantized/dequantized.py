"""The weights of a checkpoint that another program quantized, as float32."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Collection
from pathlib import Path

import numpy as np

from edgespec.errors import EdgespecError
from edgespec_export.checkpoint.json_file import JsonObject, read_json_object
from edgespec_export.checkpoint.quantized.kinds import KINDS
from edgespec_export.checkpoint.quantized.matrix import Found
from edgespec_export.checkpoint.safetensors_file import Safetensors
from edgespec_export.checkpoint.weights import BLOCK, Tensor, Weights, read_rows

__all__ = ["Dequantized", "dequantized"]

MLX = "MLX"
LOADING = {"bitsandbytes", "torchao", "quanto", "hqq"}  # may quantize plain weights at loading
# The last parts of names of tensors beside quantized ones, and who writes them; the first counts.
MARKS = {
    "weight_packed": "compressed-tensors",
    "g_idx": "gptq",
    "qweight": "awq",
    "weight_scale": "compressed-tensors",
    "weight_scale_inv": "fp8",
    "SCB": "bitsandbytes",
    "absmax": "bitsandbytes",
    "quant_map": "bitsandbytes",
    "scales": MLX,
    "blocks": "mxfp4",
    "qdata": "torchao",
    "W_q": "hqq",
    "data": "quanto",
}
_MARK = re.compile(rf".*[._]({'|'.join(MARKS)})")

_log = logging.getLogger("edgespec")


def dequantized(folder: Path, config: JsonObject, weights: Weights, label: str) -> Weights:
    """The weights of a folder; dequantized if a program of `KINDS` quantized them.

    A wish to quantize plain weights at loading is passed over.

    Raises:
        EdgespecError: they are quantized in a way that is not read.
    """
    marks = {mark[1] for name in weights.names() if (mark := _MARK.fullmatch(name))}
    method, settings = _settings(folder, config, marks)
    if method is None:
        return weights
    if not marks and method in LOADING:
        _log.info("%s: its weights are read as they are stored, not quantized by %s", label, method)
        return weights
    found = _found(method, settings, weights, label)
    _log.info(
        "%s: %d matrices quantized by %s are read as float32", label, len(found.matrices), method
    )
    return Dequantized(weights, found)


def _found(method: str, settings: JsonObject, weights: Weights, label: str) -> Found:
    reason = ""
    try:
        if method in KINDS and not isinstance(weights, Safetensors):
            raise EdgespecError("in files of PyTorch, and only safetensors are read so")
        if method in KINDS and isinstance(weights, Safetensors):
            found = KINDS[method].find(settings, weights)
            if found.matrices:
                return found
            reason = ", says its config, and no tensor is"
    except EdgespecError as error:
        reason = f" {error}"
    except (ValueError, TypeError, ZeroDivisionError):  # shapes of no such layout
        reason = ", and the shapes of its tensors do not fit"
    raise EdgespecError(
        f"{label}: its weights are quantized by {method}{reason}; take the model's unquantized "
        "checkpoint (or a GGUF file) and choose a format here, such as --target-format int4"
    )


def _settings(
    folder: Path, config: JsonObject, marks: Collection[str]
) -> tuple[str | None, JsonObject]:
    """What quantized the weights, and how: by the config, or by the names of tensors."""
    text = config.get("text_config")
    for where in (config, text if isinstance(text, dict) else {}):
        for key in ("quantization_config", "quantization"):  # the second is MLX's
            settings = where.get(key)
            if not settings:
                continue
            if not isinstance(settings, dict):
                return key, {}
            named = settings.get("quant_method")
            if isinstance(named, str):
                return named, settings
            return (MLX if "group_size" in settings else key), settings
    for method, kind in KINDS.items():  # as older versions wrote it, if tensors say it, too
        if kind.settings_file and "qweight" in marks and (folder / kind.settings_file).is_file():
            return method, read_json_object(folder / kind.settings_file)
    return next((MARKS[mark] for mark in MARKS if mark in marks), None), {}


class Dequantized:
    """The `Weights` of a checkpoint whose matrices are quantized.

    `read` gives these in float32, exactly as the program that quantized them computes it.
    """

    def __init__(self, stored: Weights, found: Found) -> None:
        self._stored, self._matrices = stored, found.matrices
        others = set(stored.names()) - found.parts
        self._names = sorted(others.union(found.matrices))

    def names(self) -> list[str]:
        """Every tensor's name, sorted; of a matrix the one that it has unquantized."""
        return list(self._names)

    def shape(self, name: str) -> tuple[int, ...]:
        """The tensor's shape, unquantized."""
        return self._matrices[name].shape if name in self._matrices else self._stored.shape(name)

    def read(self, name: str) -> Tensor:
        """The tensor; float32 if it is quantized."""
        if name not in self._matrices:
            return self._stored.read(name)
        matrix = self._matrices[name]
        values = np.empty(matrix.shape, np.float32)
        rows, *inner = matrix.shape
        count = max(1, BLOCK // math.prod(inner))
        for start in range(0, rows, count):
            values[start : start + count] = matrix.rows(start, min(start + count, rows))
        return values

    def read_rows(self, name: str, start: int, stop: int) -> Tensor:
        """Rows of `read`."""
        if name in self._matrices:
            return self._matrices[name].rows(start, min(stop, self.shape(name)[0]))
        return read_rows(self._stored, name, start, stop)
