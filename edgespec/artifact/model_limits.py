"""What the numbers of a model in a manifest may be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgespec.artifact.graph_io import ATTENTION_FORMATS, CACHE_FORMATS, DECODER, MAX_ROWS
from edgespec.errors import shortened

if TYPE_CHECKING:
    from edgespec.artifact.manifest import Exported

__all__ = ["LIMITS", "check_model"]

# The largest numbers of a model that are accepted: what a reader allocates grows with them.
LIMITS = {
    "vocab_size": 10**8,
    "layers": 10_000,
    "kv_heads": 10_000,
    "head_size": 65_536,
    "capacity": 10**9,
}
MOST_NUMBERS = 10**9  # of a recurrent layer's state


def check_model(model: Exported) -> None:
    """Raises ValueError where a number of a model is out of range, or a graph is missing."""
    for name, limit in LIMITS.items():
        value = getattr(model, name)
        if not 1 <= value <= limit:
            raise ValueError(f"{name} is {shortened(value)}, not 1 to {limit}")
    if model.layer_shapes and len(model.layer_shapes) != model.layers:
        raise ValueError(f"layer_shapes has {len(model.layer_shapes)} of {model.layers} layers")
    for shape in model.layer_shapes:
        for name in ("kv_heads", "head_size"):
            value = getattr(shape, name)
            if not 1 <= value <= LIMITS[name]:
                raise ValueError(
                    f"{name} of a layer is {shortened(value)}, not 1 to {LIMITS[name]}"
                )
    for kept in model.states:
        if not (1 <= kept.state <= MOST_NUMBERS and 1 <= kept.row <= MOST_NUMBERS):
            raise ValueError(
                f"states has {shortened(kept.state)} and {shortened(kept.row)} numbers"
            )
    if not 0 <= model.features <= LIMITS["vocab_size"]:
        raise ValueError(f"features is {shortened(model.features)}")
    if not model.vocab_size <= model.read_tokens <= LIMITS["vocab_size"]:
        raise ValueError(
            f"input_vocab_size is {shortened(model.read_tokens)}, not {model.vocab_size} to "
            f"{LIMITS['vocab_size']}"
        )
    if model.block_rows is not None and not 1 <= model.block_rows <= MAX_ROWS:
        raise ValueError(f"block_rows is {shortened(model.block_rows)}, not 1 to {MAX_ROWS}")
    if model.start_token is not None and not 0 <= model.start_token < model.vocab_size:
        raise ValueError(f"start_token is {shortened(model.start_token)}")
    if not model.variants:
        raise ValueError(f"{model.source} has no variant")
    for name, variant in model.variants.items():
        if DECODER not in variant.graphs:
            raise ValueError(f"the variant {name!r} of {model.source} has no {DECODER}")
        if variant.cache_format not in CACHE_FORMATS:
            raise ValueError(f"cache_format is {shortened(variant.cache_format)}")
        if variant.attention_format not in ATTENTION_FORMATS:
            raise ValueError(f"attention_format is {shortened(variant.attention_format)}")
        missing = variant.static.graph_names - variant.graphs.keys() if variant.static else ()
        if missing:
            raise ValueError(f"the variant {name!r} of {model.source} has no {min(missing)}")
