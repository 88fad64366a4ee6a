"""Tiny random pairs in int8, of the kinds that differ in what their models keep or read."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from checkpoints import write_noisy
from eagle3_checkpoints import write_deep_target
from eagle_checkpoints import write_eagle, write_target
from edgespec.artifact.manifest import read_manifest
from edgespec_export.export_pair import export_pair
from gemma4_checkpoints import write_assistant, write_gemma4
from manifests import edit_manifest
from qwen35_checkpoints import add_head, write_qwen35
from shared_encoder_checkpoints import write_draft as write_shared_encoder
from shared_encoder_checkpoints import write_target as write_t5
from speculators_checkpoints import BLOCK_CONFIGS, block_tensors
from speculators_checkpoints import write_draft as write_masks

__all__ = [
    "READING",
    "draft_vocabulary",
    "export_reading",
    "export_recurrent",
    "write_draft_vocabulary",
]

_INT8 = {"target_formats": ["int8"], "draft_formats": ["int8"]}
_VOCABULARY = "draft/draft_vocabulary.json"


def _shared_encoder(folder: Path) -> None:
    target = write_t5(folder / "target")
    write_shared_encoder(target, folder / "draft", width=16)


def _block(folder: Path) -> None:
    target = write_target(folder / "target", "llama")
    write_eagle(target, folder / "draft", block=4)


def _t5_block(folder: Path) -> None:
    target = write_t5(folder / "target")
    write_eagle(target, folder / "draft", block=4)


def _of_masks(name: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        write_deep_target(folder / "target")
        write_masks(folder / "draft", BLOCK_CONFIGS[name], block_tensors)

    return write


def _assistant(folder: Path) -> None:
    write_gemma4(folder / "target")
    write_assistant(folder / "draft")


# Drafts that read more of their target than an EAGLE head does.
READING: dict[str, Callable[[Path], None]] = {
    "shared_encoder": _shared_encoder,
    "block": _block,
    "t5_block": _t5_block,
    "dflash": _of_masks("dflash"),  # no token says anything of the next one
    "dspark": _of_masks("dspark"),
    "dflash2": _of_masks("dflash2"),  # no confidence
    "dspark_gated": _of_masks("dspark_gated"),
    "assistant": _assistant,
}


def export_reading(kind: str, folder: Path) -> Path:
    """A pair whose draft reads its target, one of `READING`; its folder is in `folder`."""
    READING[kind](folder)
    checkpoints = str(folder / "target"), str(folder / "draft")
    cache = {"cache_formats": ["int8", "fp32"]} if kind == "assistant" else {}
    export_pair(*checkpoints, folder / "pair", threads=1, **_INT8, **cache)
    return folder / "pair"


def export_recurrent(draft: str, folder: Path) -> Path:
    """A Qwen3.5, whose layers have states, and a draft: its "own head", or "another model", which
    has states too; the pair's folder is in `folder`."""
    target = folder / "target"
    rope = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.25}
    write_qwen35(target, rope_parameters=rope, mtp_num_hidden_layers=1)
    add_head(target)
    own = draft == "own head"
    checkpoint = target if own else write_noisy(target, folder / "draft", noise=0.1)
    export_pair(str(target), str(checkpoint), folder / "pair", threads=1, **_INT8)
    return folder / "pair"


def draft_vocabulary(size: int) -> dict[str, Any]:
    """Of `size` tokens, three of four that target and draft have in common, some of which have
    other ids; the others are spelled with one to three tokens of the draft."""
    numbers = np.random.default_rng(8)
    order = np.arange(size)
    order[-40:] = np.roll(order[-40:], 5)
    targets = [token for token in range(size) if token % 4]
    spellings = [numbers.integers(0, size, 1 + token % 3).tolist() for token in range(size)]
    for token in targets:
        spellings[token] = [int(order[token])]
    return {"common": [targets, order[targets].tolist()], "spellings": spellings, "begin": [7, 9]}


def write_draft_vocabulary(folder: Path, given: dict[str, Any] | None = None) -> None:
    """Gives a pair's draft these tokens; if None, those of `draft_vocabulary`."""
    content = json.dumps(
        given or draft_vocabulary(read_manifest(folder).target.vocab_size)
    ).encode()
    (folder / _VOCABULARY).write_bytes(content)

    def record(manifest: dict[str, Any]) -> None:
        manifest["files"][_VOCABULARY] = {
            "bytes": len(content),
            "sha256": sha256(content).hexdigest(),
        }
        manifest["draft"]["vocabulary"] = _VOCABULARY

    edit_manifest(folder, record)
