"""Pairs of one target with different drafts, opened so that their texts and times compare."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

from edgespec.artifact.manifest import TOKENIZER, Manifest, read_manifest
from edgespec.errors import UsageError
from edgespec.pair.opening.loading import LoadOptions, default_capacity, load
from edgespec.pair.opening.setup import LoadRequest, profile_of_this_machine, resolve_setup
from edgespec.pair.pair import Pair

__all__ = ["load_same_target"]


def load_same_target(folders: Sequence[Path], **options: Unpack[LoadOptions]) -> list[Pair]:
    """Opens exported pairs that have the same target.

    Each gets a copy of the target of its own, since an EAGLE draft needs another graph than other
    drafts; weights and texts are the same. All targets run as the first pair's would: in its
    variant, on its provider, with its threads. All caches hold as many positions as the smallest.

    Args:
        folders: one, or more.
        options: of `edgespec.load`.

    Raises:
        UsageError: a pair has another target than the first (nothing was loaded), or was tuned for
            another number of threads, and none is given.
    """
    first, *others = folders
    manifests = [read_manifest(folder) for folder in folders]
    request = LoadRequest(
        threads=options.get("threads"),
        target_format=options.get("target_format"),
        draft_format=options.get("draft_format"),
        provider=options.get("provider"),
        draft_provider=options.get("draft_provider"),
    )
    setup = resolve_setup(manifests[0], profile_of_this_machine(first, manifests[0]), request)
    for folder, manifest in zip(others, manifests[1:], strict=True):
        different = _difference(manifests[0], manifest, setup.target_format)
        if different is not None:
            raise UsageError(
                f"{folder} has another target than {first}: {different} differ; compare drafts "
                "of one target, exported alike"
            )
    alike: LoadOptions = {
        "threads": setup.device.threads,
        "target_format": setup.target_format,
        "provider": setup.device.provider,
        "draft_provider": setup.draft_device.provider,
        "capacity": min(map(default_capacity, manifests)),
    }
    pairs = [load(folder, **(options | alike)) for folder in folders]
    for folder, pair in zip(folders, pairs, strict=True):
        if pair.devices[0] != pairs[0].devices[0]:
            raise UsageError(
                f"{folder} was tuned for other threads than {first}; give a number of threads"
            )
    return pairs


def _difference(one: Manifest, other: Manifest, target_format: str) -> str | None:
    """What makes two targets make other texts, for people; None if nothing does."""
    if _tokenizer(one) != _tokenizer(other):
        return "their tokenizers"
    if one.eos_token_ids != other.eos_token_ids:
        return "their end-of-text tokens"
    if one.chat != other.chat:
        return "their chat formats"
    if target_format not in other.target.variants:
        return f"their formats ({target_format} is not in the second)"
    if _variant(one, target_format) != _variant(other, target_format):
        return f"their weights or caches in {target_format}"
    return None


def _tokenizer(manifest: Manifest) -> str:
    return manifest.files[TOKENIZER].sha256


def _variant(manifest: Manifest, target_format: str) -> tuple[str, list[str]]:
    weights = manifest.weights("target", target_format).values()
    digests = sorted(record.sha256 for record in weights)
    return manifest.target.variants[target_format].cache_format, digests
