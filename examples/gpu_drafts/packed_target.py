"""A packed target (pack.py) as a transformers model."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM

from edgespec_export.quantization.hadamard import STREAM_BLOCK, rotated


def open_target(file: Path, device: str, dtype: torch.dtype) -> Any:
    """The model with the weights that the int4 export has, rounded to `dtype`.

    Raises:
        SystemExit: a weight is missing.
    """
    with safe_open(file, "pt", device=device) as packed:
        config = AutoConfig.for_model(**json.loads(packed.metadata()["config"]))
        with torch.device(device):
            model: Any = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
        empty = dict(model.named_parameters())
        for parameter in empty.values():
            # Buffers keep their type: angles of late positions would differ in bf16.
            parameter.data = torch.empty_like(parameter, dtype=dtype)
            parameter.requires_grad_(requires_grad=False)
        for name in packed.keys():  # noqa: SIM118 (it is no dictionary)
            if not name.endswith((".scale", ".minimum")):
                stacked = name.removesuffix(".int4").removesuffix(".int8").split("+")
                rows = [len(empty[one]) for one in stacked]
                parts = torch.split(values_of(packed, name), rows)
                for one, part in zip(stacked, parts, strict=True):
                    empty.pop(one).copy_(part)
    if empty:
        raise SystemExit(f"{file} lacks {', '.join(empty)}; pack the target again")
    return model.eval()


def digest_of(file: Path) -> str:
    """What tells a packed target from others: SHA-256 of its file."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def values_of(packed: Any, name: str) -> Tensor:
    """A tensor in float32: code · scale + minimum in 4 bits, code · scale in 8, or as it is.

    What is in 8 bits is rotated in the export (decision 10), and rotated back here.

    Args:
        packed: an open safetensors file; see pack.py for its tensors.
    """
    stored: Tensor = packed.get_tensor(name)
    if name.endswith(".int8"):
        scale: Tensor = packed.get_tensor(f"{name.removesuffix('.int8')}.scale")
        rows = (stored * scale[:, None]).cpu().numpy()
        return torch.from_numpy(rotated(rows, STREAM_BLOCK))
    if not name.endswith(".int4"):
        return stored.float()
    scale, minimum = (
        packed.get_tensor(f"{name}.{part}").float()[..., None] for part in ("scale", "minimum")
    )
    codes = torch.stack([stored & 15, stored >> 4], -1).flatten(-2)  # [out, groups, 32]
    values: Tensor = codes * scale + minimum
    return values.flatten(1)
