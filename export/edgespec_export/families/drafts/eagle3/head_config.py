"""The configs of published EAGLE-3 heads, in three layouts."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from edgespec_export.families.drafts.eagle import Eagle
from edgespec_export.families.drafts.speculators import (
    BOOKKEEPING,
    KIND,
    LAYERS,
    layer_fields,
    refuse_yarn,
    target_layers,
)
from edgespec_export.families.model_config import Config

__all__ = ["head_fields"]

LAYER_IDS = "eagle_aux_hidden_state_layer_ids"
LIKE = ("llama", "qwen3")  # what the layers of the package's heads are like


def head_fields(values: dict[str, Any], label: str) -> dict[str, Any]:
    """The fields of an `Eagle3`, from a config with a key "target": layers and positions of its
    target."""
    return _of_speculators(values, label) if LAYERS in values else _of_specforge(values, label)


def _of_speculators(values: dict[str, Any], label: str) -> dict[str, Any]:
    """Of the package's layout, whose numbers of layers count outputs from 1."""
    config = Config(values, label)
    target = config.need("target")
    config.must_be(KIND, "eagle3")
    shape = layer_fields(config, LIKE, target["positions"], label)
    read = target_layers(config.get(LAYER_IDS), LAYER_IDS, target["layers"], label)
    norms: tuple[str, ...] = ()
    if config.flag("norm_before_fc", False):
        norms = ("input_norm.weight",)
        config.must_be("fc_norm", False)
    elif config.flag("fc_norm", False):
        norms = tuple(f"fc_norm.{index}.weight" for index in range(len(read)))
    own = {
        "input_vocab_size": shape["vocab_size"],
        "vocab_size": config.count("draft_vocab_size", 32000),
        "target_layers": read,
        "target_width": config.count("target_hidden_size", shape["width"]),
        "first": "layers.0",
        "fusion_norms": norms,
        "norm_before_residual": config.flag("norm_before_residual", False),
        "norm_output": config.flag("norm_output", False),
    }
    config.refuse_the_rest(harmless=BOOKKEEPING)
    return {**shape, **own}


def _of_specforge(values: dict[str, Any], label: str) -> dict[str, Any]:
    """Of SpecForge's and SafeAILab's layouts, which are a Llama's with a few keys more."""
    config = Config(values, label)
    target = config.need("target")
    config.must_be("num_hidden_layers", 1)
    for key in ("attention_bias", "bias", "fc_norm", "mlp_bias", "norm_before_residual"):
        config.must_be(key, False)
    refuse_yarn(config, label)
    read = config.count("vocab_size")
    own = {
        *("bias", "draft_vocab_size", "eagle_config", "fc_norm", "norm_before_residual"),
        *("target", "target_model_type", "tie_word_embeddings"),
    }
    layers = _layers(config.get("eagle_config", {}), target["layers"], label)
    eagle = Eagle.from_config(
        {
            **{key: value for key, value in values.items() if key not in own},
            "layers_of": "llama",
            "target_hidden_size": config.count("target_hidden_size", config.count("hidden_size")),
            "target_layers": list(layers),
            "vocab_size": config.count("draft_vocab_size", read),
        },
        label,
    )
    # Rotary positions go on; max_position_embeddings says how long the texts of training were.
    longer = replace(eagle.rotary, positions=target["positions"])
    return {
        **{field.name: getattr(eagle, field.name) for field in fields(eagle)},
        "positions": target["positions"],
        "rotary": longer,
        "input_vocab_size": read,
        "first": "midlayer",
        "fusion_norms": (),
        "norm_before_residual": False,
        "norm_output": False,
    }


def _layers(settings: dict[str, Any], count: int, label: str) -> tuple[int, ...]:
    """The layers of a target with `count` whose outputs a head reads, counted from 1.

    A config that names them counts from 0. Those that are read otherwise are given as inputs of the
    layers 2, count // 2 and count - 3 counted from 0, which are the same numbers of layers.
    """
    config = Config(settings, f"{label}: eagle_config")
    config.must_be("use_aux_hidden_state", True)
    named = config.get(LAYER_IDS)
    config.refuse_the_rest()
    if isinstance(named, list) and all(type(layer) is int for layer in named):
        named = [layer + 1 for layer in named]
    return target_layers(named, LAYER_IDS, count, label)
