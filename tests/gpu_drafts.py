"""The programs of examples/gpu_drafts as modules, and a tiny target for them.

Its matrices are on int4's grid and its tables on int8's, so packing loses nothing but the last bits
of tables, which are rotated.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module, util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from eagle_checkpoints import write_target
from edgespec_export.export_pair import export_pair
from edgespec_export.quantization.hadamard import STREAM_BLOCK, rotated

EXAMPLE = Path(__file__).parents[1] / "examples" / "gpu_drafts"
GROUP = 32
TEMPLATE = (
    "{% for message in messages %}[{{ message.role }}]{{ message.content }}</s>{% endfor %}"
    "{% if add_generation_prompt %}[a]{% endif %}"
)


def module(name: str) -> ModuleType:
    """A part of the programs, which import each other by name."""
    if str(EXAMPLE) not in sys.path:
        sys.path.append(str(EXAMPLE))
    return import_module(name)


def program(name: str, monkeypatch, *arguments: object, **changes: object) -> None:
    """Runs a program with arguments, as a user does, and with changed names."""
    module("decoding")  # its folder can be imported from
    spec = util.spec_from_file_location(f"gpu_drafts_{name}", EXAMPLE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    found = util.module_from_spec(spec)
    spec.loader.exec_module(found)
    for key, value in changes.items():
        monkeypatch.setattr(found, key, value)
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *map(str, arguments)])
    found.main()


def write_packable(folder: Path, kind: str) -> Path:
    """A chat model: a Qwen2 with a tied head, or a Llama with a head of its own. Its config differs
    from the defaults wherever the arithmetic can show it."""
    write_target(
        folder,
        kind,
        inner=96,
        tie_word_embeddings=kind == "qwen2",
        rope_theta=300.0,
        rms_norm_eps=0.02,
        max_position_embeddings=256,
    )
    file = folder / "model.safetensors"
    save_file({name: _kept(name, tensor) for name, tensor in load_file(file).items()}, file)
    settings = {"chat_template": TEMPLATE, "eos_token": "</s>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def _kept(name: str, tensor: np.ndarray) -> np.ndarray:
    if "embed_tokens" in name or "lm_head" in name:
        rows = rotated(tensor, STREAM_BLOCK)
        step = np.abs(rows).max(1, keepdims=True) / np.float32(127)
        return rotated(np.rint(rows / step) * step, STREAM_BLOCK)
    return tensor if tensor.ndim == 1 else on_grid(tensor)


def on_grid(matrix: np.ndarray) -> np.ndarray:
    """A near matrix whose groups have 16 steps in float16; the first and the last are used."""
    groups = matrix.reshape(len(matrix), -1, GROUP)
    low = groups.min(2, keepdims=True).astype(np.float16).astype(np.float32)
    step = ((groups.max(2, keepdims=True) - low) / 15).astype(np.float16).astype(np.float32)
    codes = np.clip(np.rint((groups - low) / step), 0, 15)
    codes[..., 0], codes[..., 1] = 0, 15
    return (codes * step + low).reshape(matrix.shape)


def packed(folder: Path, place: Path) -> Path:
    """The file that pack.py makes of a target."""
    export = {"target_formats": ["int4"], "calibration": "none", "measure": False}
    export_pair(str(folder), None, place / "pair", **export)
    file = place / "target.safetensors"
    with pytest.MonkeyPatch.context() as monkeypatch:
        program("pack", monkeypatch, folder, place / "pair", file)
    return file
