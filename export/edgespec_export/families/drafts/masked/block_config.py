"""The configs of drafts that fill a block of masks, in the layout of the package "speculators"."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from edgespec.artifact import graph_io
from edgespec.errors import EdgespecError
from edgespec_export.families.drafts.speculators import (
    BOOKKEEPING,
    KIND,
    layer_fields,
    target_layers,
)
from edgespec_export.families.model_config import Config

__all__ = ["Convolution", "Markov", "Selector", "block_fields"]

LAYER_IDS = "aux_hidden_state_layer_ids"
LIKE = ("qwen3", "llama")  # what the layers' config may be like; the layers are Qwen3's
OF_TRAINING = {"max_anchors", "num_anchors"}


@dataclass(frozen=True)
class Markov:
    """What a row's logits take from the token before it (DSpark).

    Attributes:
        rank: of its table.
        is_gated: the row's hidden state says how much of each number.
    """

    rank: int
    is_gated: bool


@dataclass(frozen=True)
class Convolution:
    """What mixes a row of a block with those just before it (DFlash-2).

    Attributes:
        taps: rows, its own included.
        group: numbers of a row that share a factor.
    """

    taps: int
    group: int


@dataclass(frozen=True)
class Selector:
    """What chooses between a row's best tokens, knowing the one before it (DFlash-2).

    Attributes:
        rank: of its tables.
        count: of the best tokens.
    """

    rank: int
    count: int


def block_fields(values: dict[str, Any], label: str) -> dict[str, Any]:
    """The fields of a `MaskedBlock`, from a config with a key "target": layers and positions of its
    target."""
    config = Config(values, label)
    target, kind = config.need("target"), config.need(KIND)
    shape = layer_fields(config, LIKE, target["positions"], label)
    rows = config.count("block_size", 8)
    from_anchor = _from_anchor(config, kind, rows)
    drafted = rows if from_anchor else rows - 1
    if not 1 <= drafted < graph_io.MAX_ROWS:
        raise ValueError(f"block_size is {rows}, and drafts {drafted} tokens")
    own = {
        "input_vocab_size": shape["vocab_size"],
        "vocab_size": config.count("draft_vocab_size", 32000),
        "target_layers": target_layers(config.need(LAYER_IDS), LAYER_IDS, target["layers"], label),
        "target_width": config.count("target_hidden_size", shape["width"]),
        "block_rows": rows,
        "mask": config.count("mask_token_id"),
        "from_anchor": from_anchor,
        "windows_are_causal": not config.flag("sliding_window_non_causal", kind == "dflash2"),
        # Rows of a block stand after the last position of a text.
        "rotary": replace(shape["rotary"], positions=target["positions"] + rows),
        "rotates_neighbours": not config.flag("rope_is_neox_style", True),
        "head_norms": True,
        "mlp_bias": False,
        **_heads(config, kind, label),
    }
    if own["mask"] >= own["input_vocab_size"]:
        raise ValueError(f"mask_token_id is {own['mask']} of {own['input_vocab_size']} tokens")
    config.refuse_the_rest(harmless=BOOKKEEPING | OF_TRAINING)
    return {**shape, **own}


def _from_anchor(config: Config, kind: str, rows: int) -> bool:
    """Whether the first row drafts a token. Older configs say only how many tokens are drafted."""
    if not config.states("sample_from_anchor"):
        methods = (config.get("speculators_config") or {}).get("proposal_methods") or [{}]
        drafted = methods[0].get("speculative_tokens")
        if drafted in (rows, rows - 1):
            return bool(drafted == rows)
    return config.flag("sample_from_anchor", kind == "dspark")


def _heads(config: Config, kind: str, label: str) -> dict[str, Any]:
    """What comes after the layers, and between them."""
    found: dict[str, Any] = dict.fromkeys(("markov", "convolution", "selector"))
    found |= {"has_confidence": False, "confidence_reads_token": False}
    if kind == "dspark":
        found |= _of_dspark(config, label)
    elif kind == "dflash2":
        taps, group = config.count("conv_kernel_size", 2), config.count("conv_group_size", 16)
        found["convolution"] = Convolution(taps, group)
        found["selector"] = Selector(
            config.count("selector_rank", 256), config.count("selector_top_k", 16)
        )
    return found


def _of_dspark(config: Config, label: str) -> dict[str, Any]:
    config.must_be("markov_head_type", "vanilla", "gated")
    rank = config.get("markov_rank", 256)
    markov = None
    if rank != 0:
        is_gated = config.get("markov_head_type", "vanilla") == "gated"
        markov = Markov(config.count("markov_rank", 256), is_gated)
    confident = config.flag("enable_confidence_head", True)
    reads_token = config.flag("confidence_head_with_markov", True) and confident
    if reads_token and markov is None:
        raise EdgespecError(
            f"{label}: config.json says confidence_head_with_markov = true and markov_rank = 0; "
            "download it again"
        )
    return {
        "markov": markov,
        "has_confidence": confident,
        "confidence_reads_token": reads_token,
    }
