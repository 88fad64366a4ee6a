"""The formats of a cache that an export is asked for: what is stored, and attention's numbers.

"int8" stores keys and values in 8 bits and attends in float32; "int8-bf16" attends in bfloat16
(docs/decisions/0055-attention-in-bfloat16.md).
"""

from __future__ import annotations

from dataclasses import dataclass

from edgespec_export.components.attention.kv_cache import CACHES

__all__ = ["CACHE_FORMATS", "CacheFormat"]


@dataclass(frozen=True)
class CacheFormat:
    """A format of the cache.

    Attributes:
        stored: of keys and values, one of `CACHES`.
        attention: of the numbers whose products attention adds up, "fp32" or "bf16".
    """

    stored: str
    attention: str = "fp32"


# None in bfloat16 for keys and values in floats: rounding them at each read takes longer than one
# row's products.
CACHE_FORMATS = {name: CacheFormat(name) for name in CACHES} | {
    "int8-bf16": CacheFormat("int8", "bf16")
}
