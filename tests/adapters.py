"""Adapters as peft writes them, and the weights that a model has with one.

The weights are computed here from the formulas of the papers, in float64.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

PREFIX = "base_model.model."


def write_adapter(
    base: Path,
    folder: Path,
    modules: Sequence[str],
    *,
    rank: int = 4,
    alpha: float = 12,
    ranks: Mapping[str, int] | None = None,
    alphas: Mapping[str, float] | None = None,
    root: bool = False,
    dora: bool = False,
    transposed: bool = False,
    whole: Mapping[str, np.ndarray] | None = None,
    prefix: str = "",
    seed: int = 0,
    **settings: Any,
) -> dict[str, np.ndarray]:
    """Writes an adapter of a checkpoint; returns the checkpoint's tensors with it.

    Args:
        modules: that get a product of two matrices; "lm_head" and others by their whole names.
        ranks, alphas: of modules that end so.
        transposed: the checkpoint stores its matrices as [in, out].
        whole: tensors that were trained as a whole, by their names.
        prefix: before the names of modules in the adapter.
        settings: more keys of adapter_config.json.
    """
    rng = np.random.default_rng(seed)
    tensors = load_file(base / "model.safetensors")
    stored: dict[str, np.ndarray] = {}
    for module in modules:
        name = f"{module}.weight"
        matrix = tensors[name].astype(np.float64)
        matrix = matrix.T if transposed else matrix
        out, width = matrix.shape
        r = next((value for end, value in (ranks or {}).items() if module.endswith(end)), rank)
        of = next((value for end, value in (alphas or {}).items() if module.endswith(end)), alpha)
        a = rng.normal(0, 0.1, (r, width)).astype(np.float32)
        b = rng.normal(0, 0.1, (out, r)).astype(np.float32)
        scale = of / (np.sqrt(r) if root else r)
        changed = matrix + scale * (b.astype(np.float64) @ a.astype(np.float64))
        at = f"{PREFIX}{prefix}{module}"
        stored |= {f"{at}.lora_A.weight": a, f"{at}.lora_B.weight": b}
        if dora:
            lengths = rng.uniform(0.5, 2, out).astype(np.float32)
            stored[f"{at}.lora_magnitude_vector"] = lengths
            changed *= (lengths / np.linalg.norm(changed, axis=1))[:, None]
        tensors[name] = np.ascontiguousarray(changed.T if transposed else changed, np.float32)
    for name, tensor in (whole or {}).items():
        stored[f"{PREFIX}{prefix}{name}"] = tensors[name] = tensor
    folder.mkdir()
    save_file(stored, folder / "adapter_model.safetensors")
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": "somewhere/base",
        "r": rank,
        "lora_alpha": alpha,
        "lora_dropout": 0.05,
        "target_modules": sorted({module.rpartition(".")[2] for module in modules}),
        "rank_pattern": dict(ranks or {}),
        "alpha_pattern": dict(alphas or {}),
        "use_rslora": root,
        "use_dora": dora,
        "fan_in_fan_out": transposed,
        "bias": "none",
        "init_lora_weights": True,
        "inference_mode": True,
        "qalora_group_size": 16,
        "runtime_config": {"ephemeral_gpu_offload": False},
    }
    (folder / "adapter_config.json").write_text(json.dumps(config | settings))
    return tensors
