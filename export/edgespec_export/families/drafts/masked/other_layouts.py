"""Drafts that fill blocks of masks as z-lab (DFlash), DeepSpec, SpecForge and Liquid AI (DSpark)
publish them.

Their configs are a Qwen3's with a few keys more, and their tensors have the names of the package
"speculators". They count the layers of their target that they read from 0.
"""

from __future__ import annotations

from typing import Any

from edgespec.errors import EdgespecError, shortened
from edgespec_export.checkpoint.json_file import JsonObject
from edgespec_export.families.config_keys import class_keys
from edgespec_export.families.drafts.speculators import KIND, LAYERS, refuse_yarn
from edgespec_export.families.model_config import HARMLESS, Config

__all__ = ["ARCHITECTURES", "as_speculators", "is_other_layout"]

# Architectures, by who publishes them.
DFLASH = "DFlashDraftModel"  # z-lab
DSPARK = "Qwen3DSparkModel"  # DeepSpec
NESTED = ("DSparkDraftModel", "Lfm2DSparkDraftModel")  # SpecForge, Liquid AI
ARCHITECTURES = (DFLASH, DSPARK, *NESTED)
# Of a block; the rest of a config is its layers'.
OF_DSPARK = (
    *("block_size", "confidence_head_with_markov", "enable_confidence_head", "mask_token_id"),
    *("markov_head_type", "markov_rank", "num_anchors"),
)
OF_DFLASH2 = ("conv_group_size", "conv_kernel_size", "selector_rank", "selector_top_k")
OF_TRAINING = ("confidence_head_alpha",)


def is_other_layout(config: JsonObject) -> bool:
    """Whether a config is one of these."""
    names = config.get("architectures")
    return KIND not in config and names in [[name] for name in ARCHITECTURES]


def as_speculators(config: JsonObject, layers: int, label: str) -> JsonObject:
    """The same draft in the package's layout.

    Args:
        layers: of its target.

    Raises:
        EdgespecError: it is another target's, or a key that changes what it computes is not known.
    """
    reader = Config(config, label)
    (architecture,) = reader.need("architectures")
    own, taken = _MAKERS[architecture](config, label)
    trained_for = own.pop("num_target_layers", None) or reader.count("num_target_layers", layers)
    if trained_for != layers:
        raise EdgespecError(
            f"{label} was trained for a target of {shortened(trained_for)} layers, and this one "
            f"has {layers}; pair it with the target it was trained for"
        )
    named = own.pop("target_layer_ids")
    if not isinstance(named, list) or not all(type(layer) is int for layer in named):
        raise ValueError(f"target_layer_ids is {shortened(named)}")
    if layers - 1 in named:
        raise EdgespecError(
            f"{label} reads what its target's last norm returns (layer {layers - 1} of {layers}, "
            "counted from 0); edgespec exports drafts that read layers before it"
        )
    left_out = {*taken, "architectures", "auto_map", "num_target_layers", *OF_TRAINING}
    shape = {key: value for key, value in config.items() if key not in left_out}
    _refuse_unknown(shape, label)
    refuse_yarn(Config(shape, label), label)
    return {
        **own,
        "aux_hidden_state_layer_ids": [layer + 1 for layer in named],
        "draft_vocab_size": reader.count("vocab_size"),
        LAYERS: shape,
    }


def _refuse_unknown(shape: JsonObject, label: str) -> None:
    """Refuses keys that a Qwen3 does not have: code of the draft's own may read them."""
    keys = class_keys("qwen3")
    assert keys is not None, "Qwen3 is a model of transformers"
    known = HARMLESS.union(keys.defaults, keys.others)
    for key in sorted(set(shape) - known):
        raise EdgespecError(
            f"{label}: config.json has a key that edgespec does not know, and it may change what "
            f"the draft computes: {key[:60]} = {shortened(shape[key])}"
        )


def _of_dspark(config: JsonObject, label: str) -> tuple[dict[str, Any], set[str]]:
    """What the config says of a block, and the keys that say it."""
    own = {key: config[key] for key in OF_DSPARK if key in config}
    own |= {KIND: "dspark", "target_layer_ids": config.get("target_layer_ids")}
    own["block_size"] = Config(config, label).need("block_size")
    return {"enable_confidence_head": False, **own}, {*OF_DSPARK, "target_layer_ids"}


def _of_nested(config: JsonObject, label: str) -> tuple[dict[str, Any], set[str]]:
    """Likewise, where some keys are in a part of the config."""
    settings = _settings(config, label)
    settings.must_be("attention_mode", "gqa")
    settings.must_be("projector_type", "dspark")
    nested = (*OF_DSPARK, "num_target_layers", "target_layer_ids")
    found = {key: settings.get(key) for key in nested if settings.states(key)}
    settings.refuse_the_rest(harmless=OF_TRAINING)
    own, taken = _of_dspark({**config, **found}, label)
    own |= {key: found[key] for key in ("num_target_layers",) if key in found}
    if "rope_is_neox_style" in config:
        own["rope_is_neox_style"] = config["rope_is_neox_style"]
    return own, {*taken, "dflash_config", "rope_is_neox_style"}


def _of_dflash(config: JsonObject, label: str) -> tuple[dict[str, Any], set[str]]:
    """Likewise. The size of a block is beside the other keys or, in newer configs, among them."""
    settings = _settings(config, label)
    own: dict[str, Any] = {
        "block_size": settings.get("block_size") or Config(config, label).need("block_size"),
        "mask_token_id": settings.get("mask_token_id"),
        "target_layer_ids": settings.get("target_layer_ids"),
        "sliding_window_non_causal": not settings.flag("causal", False),
    }
    of_dflash2 = {key: settings.get(key) for key in OF_DFLASH2 if settings.states(key)}
    settings.refuse_the_rest()
    kind = "dflash2" if of_dflash2 else "dflash"
    return {KIND: kind, **own, **of_dflash2}, {"block_size", "dflash_config"}


def _settings(config: JsonObject, label: str) -> Config:
    """The part of a config that says most of a block."""
    stated: Any = config.get("dflash_config") or {}
    return Config(stated, f"{label}: dflash_config")


_MAKERS = {DFLASH: _of_dflash, DSPARK: _of_dspark, **dict.fromkeys(NESTED, _of_nested)}
