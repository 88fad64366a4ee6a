"""Limits that several hosts share: caches in float32, of so many positions at most."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from edgespec.artifact.manifest import Exported, Manifest
from edgespec.errors import UsageError

__all__ = ["check_float32_caches", "limited_capacity"]


def check_float32_caches(cache_formats: Sequence[str], host: str) -> None:
    """Raises UsageError for other formats of the cache.

    Args:
        host: for people, such as "a GPU".
    """
    if set(cache_formats) != {"fp32"}:
        raise UsageError(
            f"the cache formats are {', '.join(cache_formats)}, and an export for {host} has fp32; "
            "leave --cache-format out"
        )


def limited_capacity(manifest: Manifest, most: int) -> Manifest:
    """The manifest with caches of at most so many positions."""

    def limited(model: Exported) -> Exported:
        return dataclasses.replace(model, capacity=min(model.capacity, most))

    return dataclasses.replace(
        manifest,
        target=limited(manifest.target),
        draft=manifest.draft and limited(manifest.draft),
    )
