"""Checkpoints from the Hugging Face hub, through its own cache."""

from __future__ import annotations

import glob
import importlib
from pathlib import Path
from typing import Any

from edgespec.artifact.manifest import VOCABULARY
from edgespec.errors import EdgespecError, in_checkout, one_line, shortened
from edgespec_export.checkpoint.shard_index import missing_shards

__all__ = ["download"]

_SAFETENSORS = ["model.safetensors", "model.safetensors.index.json"]
# No "*.safetensors": repositories also hold files of other models and formats.
_FILES = [
    "config.json",
    "adapter_config.json",
    "adapter_model.safetensors",
    "quant_config.json",  # of older AWQ and GPTQ
    "quantize_config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "spiece.model",
    "source.spm",  # Marian's, with its vocabularies
    "vocab.json",
    "target_vocab.json",
    "chat_template.jinja",
    VOCABULARY,
    *_SAFETENSORS,
    "model-*.safetensors",
]
_TORCH_FILES = [
    "adapter_model.bin",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
    "pytorch_model-*.bin",
]


def download(repository: str, revision: str | None) -> Path:
    """The local folder of a repository's checkpoint; downloads what the cache lacks.

    PyTorch weights are only fetched if the repository has no safetensors, and shards of any name
    that an index gives. HF_HUB_OFFLINE, HF_HOME,
    HF_TOKEN and a stored login work as in every other program that uses the hub.

    Raises:
        EdgespecError: no such repository or revision, no access, or no connection and no copy.
    """
    try:
        hub = importlib.import_module("huggingface_hub")
    except ImportError as error:
        raise EdgespecError(
            f"{repository}: downloading needs huggingface-hub: {in_checkout('.[export]')}"
        ) from error
    folder = _snapshot(hub, repository, revision, _FILES)
    if not any((folder / name).is_file() for name in _SAFETENSORS):
        folder = _snapshot(hub, repository, revision, _TORCH_FILES)
    others = [glob.escape(name) for name in missing_shards(folder)]
    return _snapshot(hub, repository, revision, others) if others else folder


def _snapshot(hub: Any, repository: str, revision: str | None, patterns: list[str]) -> Path:
    errors = importlib.import_module("huggingface_hub.errors")
    page = f"https://huggingface.co/{repository}"
    try:
        return Path(hub.snapshot_download(repository, revision=revision, allow_patterns=patterns))
    except errors.HFValidationError as error:
        raise EdgespecError(f"{repository}: is not a hub id ({error})") from error
    except errors.GatedRepoError as error:
        raise EdgespecError(
            f"{repository}: is gated: accept its terms at {page}, then `hf auth login`"
        ) from error
    except errors.RevisionNotFoundError as error:
        raise EdgespecError(
            f"{repository}: has no revision {shortened(revision)}: see {page}"
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise EdgespecError(
            f"{repository}: no such folder here, and no such model on the hub (or a private one: "
            "`hf auth login`)"
        ) from error
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled) as error:
        raise EdgespecError(
            f"{repository}: no such folder here, no copy in the cache, and the hub cannot be "
            "reached: go online without HF_HUB_OFFLINE, or give a folder that exists"
        ) from error
    except Exception as error:  # what the connection raises depends on the hub's version
        reason = one_line(error)
        raise EdgespecError(f"{repository}: the download failed ({reason}): try again") from error
