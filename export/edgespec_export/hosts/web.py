"""What a pair must be to run in a browser, on onnxruntime-web: formats, sizes of files, memory.

Its WebAssembly has 32-bit addresses: weights, what the runtime makes of them, and caches have 4 GiB
together. docs/guides/browser.md has the measurements behind the figures here.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from edgespec.artifact.manifest import Exported, Manifest
from edgespec.errors import EdgespecError, UsageError
from edgespec_export.hosts.host_limits import check_float32_caches, limited_capacity
from edgespec_export.quantization.formats import FORMATS

__all__ = [
    "SHARD_BYTES",
    "WEB_FORMATS",
    "check_estimate",
    "check_formats",
    "check_memory",
    "check_model",
    "log_sizes",
    "memory",
    "with_limited_capacity",
]

SHARD_BYTES = 100_000_000  # what hosts of static files take, such as GitHub Pages
HEAP_BYTES = 2**32
RUNTIME_BYTES = 32_000_000  # of the heap, before any weights
# A call copies the cache into the heap and out of it, so capacity costs time as well as memory.
CAPACITY = 2048
FLOAT32_BYTES = 4


# The formats that were run on onnxruntime-web 1.30 (docs/guides/browser.md).
WEB_FORMATS = {name: each.web for name, each in FORMATS.items() if each.web is not None}

_log = logging.getLogger("edgespec")


def check_formats(
    target_formats: Sequence[str], draft_formats: Sequence[str], cache_formats: Sequence[str]
) -> None:
    """Raises UsageError for what a browser cannot use, or would download without using it."""
    for what, formats in (("target", target_formats), ("draft", draft_formats)):
        if len(set(formats)) > 1:
            raise UsageError(
                f"{len(set(formats))} {what} formats are given, and an export for the web has one "
                "of each model; export each into a folder of its own"
            )
        if formats[0] not in WEB_FORMATS:
            raise UsageError(
                f"the {what} format {formats[0]} is not known to run in a browser; "
                f"there is: {', '.join(WEB_FORMATS)}"
            )
    check_float32_caches(cache_formats, "the web")


def check_model(model_type: object) -> None:
    """Raises EdgespecError for a model that no browser runs yet."""
    if model_type == "whisper":
        raise EdgespecError(
            "a Whisper is not known to run in a browser; export it without --for web"
        )
    if model_type == "qwen3_5_text":
        raise EdgespecError(
            "no browser keeps the states of Qwen3.5's layers; export it without --for web"
        )


def check_estimate(models: Sequence[tuple[int, str]]) -> None:
    """Refuses models whose weights alone cannot fit, before anything is written.

    Args:
        models: of the target and of the draft, the bytes of all tensors as float32 and the format.
    """
    weights = [
        (size / FLOAT32_BYTES * WEB_FORMATS[name].weight_bytes, name) for size, name in models
    ]
    check_memory(sum(_heap(size, name) for size, name in weights))


def check_memory(needed: int) -> None:
    """Raises EdgespecError where a browser cannot give so many bytes."""
    if needed > HEAP_BYTES:
        raise EdgespecError(
            f"the pair would take {needed / 1e9:.1f} GB in a browser, and WebAssembly has "
            f"{HEAP_BYTES / 1e9:.1f} GB; take --target-format int8 or a smaller model"
        )


def with_limited_capacity(manifest: Manifest) -> Manifest:
    """The manifest with caches of at most `CAPACITY` positions."""
    return limited_capacity(manifest, CAPACITY)


def memory(manifest: Manifest) -> int:
    """Bytes of a browser's heap that a pair takes with full caches, about."""
    models = {"target": manifest.target, "draft": manifest.draft}
    return RUNTIME_BYTES + sum(
        _memory(model, role, manifest) for role, model in models.items() if model is not None
    )


def log_sizes(manifest: Manifest) -> None:
    """Says what a pair asks of a browser."""
    _log.info(
        "web: %.0f MB to download, about %.0f MB of memory with full caches",
        sum(record.bytes for record in manifest.files.values()) / 1e6,
        memory(manifest) / 1e6,
    )


def _memory(model: Exported, role: str, manifest: Manifest) -> int:
    """Of a model's weights and its cache, which a call has as input and as output."""
    ((name, variant),) = model.variants.items()
    weights = manifest.bytes(role, name)
    numbers = sum(2 * shape.kv_heads * shape.head_size for shape in model.cache_shapes)
    cache = numbers * model.capacity * FLOAT32_BYTES
    return _heap(weights, variant.weights_format) + 2 * cache


def _heap(weights: float, weights_format: str) -> int:
    return round(weights * WEB_FORMATS[weights_format].heap_factor)
