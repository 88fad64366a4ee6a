"""The programs whose quantized checkpoints are read. A new one is one file here and one entry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from edgespec_export.checkpoint.json_file import JsonObject
from edgespec_export.checkpoint.quantized.awq import find_awq
from edgespec_export.checkpoint.quantized.bitsandbytes import find_bitsandbytes
from edgespec_export.checkpoint.quantized.compressed_tensors import find_compressed_tensors
from edgespec_export.checkpoint.quantized.fp8 import find_fp8
from edgespec_export.checkpoint.quantized.gptq_source import find_gptq
from edgespec_export.checkpoint.quantized.matrix import Found, Parts
from edgespec_export.checkpoint.quantized.mlx import find_mlx
from edgespec_export.checkpoint.quantized.mxfp4 import find_mxfp4

__all__ = ["KINDS", "SourceKind"]


@dataclass(frozen=True)
class SourceKind:
    """A program that quantizes checkpoints.

    Attributes:
        find: the matrices of a checkpoint with these settings; raises EdgespecError with a phrase
            that goes on "its weights are quantized by NAME …".
        settings_file: has the settings where config.json has none, as older versions wrote it.
    """

    find: Callable[[JsonObject, Parts], Found]
    settings_file: str | None = None


# By `quant_method`; MLX writes none.
KINDS = {
    "awq": SourceKind(find_awq, settings_file="quant_config.json"),
    "gptq": SourceKind(find_gptq, settings_file="quantize_config.json"),
    "fp8": SourceKind(find_fp8),
    "fbgemm_fp8": SourceKind(find_fp8),
    "compressed-tensors": SourceKind(find_compressed_tensors),
    "bitsandbytes": SourceKind(find_bitsandbytes),
    "MLX": SourceKind(find_mlx),
    "mxfp4": SourceKind(find_mxfp4),
}
