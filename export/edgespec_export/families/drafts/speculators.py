"""Drafts in the layout of the package "speculators" (PyPI, 0.9), in which most are published now.

A config names what kind of draft it is, the tokens and layers of its target, and the layers of the
draft itself by a config of their own, as transformers' class writes it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from edgespec.errors import EdgespecError, shortened
from edgespec_export.families.llama_like.llama import HARMLESS, Llama
from edgespec_export.families.llama_like.llama_kinds import KINDS
from edgespec_export.families.model_config import Config
from edgespec_export.families.rotary.rope import LENGTH, rope_kind, rope_settings

__all__ = ["BOOKKEEPING", "KIND", "LAYERS", "layer_fields", "refuse_yarn", "target_layers"]

KIND = "speculators_model_type"
LAYERS = "transformer_layer_config"
# Keys that say who wrote a draft, and what it was trained with; none changes what it computes.
BOOKKEEPING = frozenset(
    {
        *("embed_requires_grad", "has_no_defaults_at_init", "is_composition", "provenance"),
        *("speculators_config", "speculators_version", "tie_word_embeddings"),
    }
)


def layer_fields(
    config: Config, model_types: tuple[str, ...], positions: int, label: str
) -> dict[str, Any]:
    """The fields of a `Llama` with a draft's layers; `vocab_size` is its target's.

    Args:
        model_types: that the layers may be like.
        positions: of the target. A draft's own are those of its training, and rotary ones go on.

    Raises:
        EdgespecError: layers of another kind, or a key that changes what they compute.
    """
    values = {**config.need(LAYERS), LENGTH: positions}
    layers = Config(values, f"{label}: {LAYERS}")
    kind = layers.need("model_type")
    if kind not in model_types:
        raise EdgespecError(
            f"{label}: {LAYERS} says model_type = {shortened(kind)}; edgespec exports such drafts "
            f"with layers like those of {', '.join(model_types)}"
        )
    if rope_kind(layers) == "yarn" and "factor" not in rope_settings(layers):
        raise EdgespecError(
            f"{label}: {LAYERS} asks for rope scaling 'yarn' and states no factor; download it "
            "again"
        )
    of_type = KINDS[kind]
    if of_type.windows == "none" and layers.get("layer_types"):
        of_type = replace(of_type, windows="listed")  # which the package applies to any layers
    fields = Llama.fields_of(layers, of_type, label)
    layers.refuse_the_rest(harmless=HARMLESS)
    longer = replace(fields["rotary"], positions=positions)
    return {**fields, "tied_head": False, "positions": positions, "rotary": longer}


def refuse_yarn(config: Config, label: str) -> None:
    """Refuses a rope scaling of which drafts have no one meaning."""
    if rope_kind(config) == "yarn":
        raise EdgespecError(
            f"{label}: config.json asks for rope scaling 'yarn', which programs that train "
            "heads compute differently; edgespec exports it for whole models only"
        )


def target_layers(named: Any, key: str, count: int, label: str) -> tuple[int, ...]:
    """The layers of a target with `count` whose outputs a draft reads, counted from 1.

    Args:
        named: by the draft's config, likewise; None: three, by their usual numbers.
        key: in the config.

    Raises:
        EdgespecError: the target has no such layers, or they are not in order.
        ValueError: they are no numbers.
    """
    layers = [2, count // 2, count - 3] if named is None else named
    if not isinstance(layers, list) or not all(type(layer) is int for layer in layers):
        raise ValueError(f"{key} is {shortened(named)}")
    if not layers or layers != sorted(set(layers)) or layers[0] < 1 or layers[-1] > count:
        raise EdgespecError(
            f"{label} reads layers {shortened(layers)} of its target, counted from 1 and upwards, "
            f"and this one has {count}; pair it with the target it was trained for"
        )
    return tuple(layers)
