"""The parts of a target that a draft starts from: its tables and some of its layers.

Where the export computes the target, transformers need not load it: for a model of 1.5 billion
parameters that saves 6 GB. A draft that reads its target's states has layers of its own, so its
target may be of a family whose forward pass is not written for the training. A T5's draft is a
Llama, too: what its layers need to know of the source is in the target's states.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM, LlamaConfig

from edgespec.errors import EdgespecError, one_line
from edgespec_distill.data.draft_vocabulary import full_vocabulary
from edgespec_distill.models.causal import Causal
from edgespec_distill.models.seq2seq import Seq2Seq
from edgespec_distill.models.trainable import GeneratingModel
from edgespec_distill.models.untrained_draft import (
    GGUF_ENTRIES,
    last_layers,
    spread_layers,
    writes_residual,
)
from edgespec_distill.plan import Plan, is_known_llama
from edgespec_export.checkpoint.checkpoint import Checkpoint
from edgespec_export.components.norms.norm import RmsNorm
from edgespec_export.families import Family
from edgespec_export.families.decoder_only import DecoderOnly
from edgespec_export.families.t5 import T5

__all__ = ["open_ends", "training_dtype"]

_LAYERS = "model.layers."
# A feed-forward of Llama's proportion; its size is a multiple of this.
FEED_FORWARD_SHARE, FEED_FORWARD_UNIT = 8 / 3, 64
# Positions that a T5's draft can tell apart, in lengths of the target's training texts. The target
# has distances and no limit.
T5_LENGTHS = 4

# A target with tables, a norm before its head, and layers with states that a draft can read.
ReadableFamily = DecoderOnly | T5


def open_ends(checkpoint: Checkpoint, family: ReadableFamily, plan: Plan) -> GeneratingModel:
    """A model with the target's tables and last norm, and with as many layers as the draft.

    They are layers of the target where the training knows their forward pass, and else a Llama's
    that add nothing yet. The model is no target: only `exported_target` can make it one.

    Args:
        family: that of the checkpoint, as `tensor_check.fitted` says.
    """
    is_known = is_known_llama(family)
    try:
        with torch.random.fork_rng():
            torch.manual_seed(plan.seed)
            config = (_config if is_known else _llama)(checkpoint, family, plan)
            config.tie_word_embeddings = family.tied_head
            model: Any = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    except (MemoryError, KeyboardInterrupt):
        raise
    except Exception as error:
        raise EdgespecError(
            f"{checkpoint.label}: transformers makes no model of its config: "
            f"{type(error).__name__}: {one_line(error)}"
        ) from None
    _fill(model, checkpoint, family, _kept_layers(family, plan) if is_known else ())
    model.eval().requires_grad_(requires_grad=False)
    vocabulary = full_vocabulary(family.vocab_size)
    if family.start_token is not None:
        return Seq2Seq(model, vocabulary, family.start_token)
    return Causal(model, vocabulary)


def training_dtype(device: str) -> torch.dtype:
    """bf16 where the machine has instructions for it; elsewhere it is slower than float32."""
    flags = Path("/proc/cpuinfo")
    on_cpu = flags.exists() and any(f in flags.read_text() for f in ("avx512_bf16", "amx_bf16"))
    return torch.bfloat16 if device == "cuda" or on_cpu else torch.float32


def _fill(
    model: Any, checkpoint: Checkpoint, family: ReadableFamily, layers: Sequence[int]
) -> None:
    """Gives the model the target's weights. Buffers keep their type: see `start_weights`.

    Args:
        layers: the target's layer, counted from 0, of each layer of the model; none if they are not
            the target's.
    """
    weights, dtype = family.view(checkpoint.weights), training_dtype("cpu")
    assert isinstance(family.last_norm, RmsNorm)
    ends = {
        "model.embed_tokens.weight": family.table,
        "lm_head.weight": family.head,
        "model.norm.weight": family.last_norm.weight,
    }
    for name, parameter in model.named_parameters():
        stored = ends.get(name)
        if stored is None and layers:
            layer, rest = name.removeprefix(_LAYERS).split(".", 1)
            stored = f"{_LAYERS}{layers[int(layer)]}.{rest}"
        if stored is not None:
            values = torch.from_numpy(np.array(weights.read(stored), np.float32))
            parameter.data = values.to(dtype)
        elif writes_residual(name):
            parameter.data = torch.zeros_like(parameter, dtype=dtype)
        else:
            parameter.data = parameter.data.to(dtype)
    if isinstance(family, T5):  # a Llama's head multiplies the norm's result as it is
        model.model.norm.weight.data *= family.head_factor


def _kept_layers(family: Family, plan: Plan) -> Sequence[int]:
    """The target's layers, counted from 0, that the draft starts from."""
    keep = last_layers if plan.uses_target_states else spread_layers
    return keep(plan.layers, family.layers)


def _config(checkpoint: Checkpoint, family: ReadableFamily, plan: Plan) -> Any:
    """The target's config with fewer layers."""
    kept: dict[str, Any] = {
        name: value for name, value in checkpoint.config.items() if name not in GGUF_ENTRIES
    }
    kept["num_hidden_layers"] = plan.layers
    kinds = kept.get("layer_types")
    if kinds:
        kept["layer_types"] = [kinds[index] for index in _kept_layers(family, plan)]
    return AutoConfig.for_model(**{"pad_token_id": None, **kept})


def _llama(checkpoint: Checkpoint, family: ReadableFamily, plan: Plan) -> LlamaConfig:
    """A Llama of the target's width, heads and positions; its width has to be a multiple of the
    number of heads, of which it may have fewer for that."""
    units = round(FEED_FORWARD_SHARE * family.width / FEED_FORWARD_UNIT)
    kv_heads = family.heads.kv_count
    counts = range(family.heads.count, 0, -kv_heads)
    heads = next((count for count in counts if family.width % count == 0), kv_heads)
    return LlamaConfig(
        vocab_size=family.vocab_size,
        hidden_size=family.width,
        intermediate_size=max(1, units) * FEED_FORWARD_UNIT,
        num_hidden_layers=plan.layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=family.heads.size,
        max_position_embeddings=family.positions or T5_LENGTHS * family.capacity,
        rms_norm_eps=family.epsilon,
        bos_token_id=None,
        eos_token_id=list(checkpoint.eos_token_ids),
        decoder_start_token_id=family.start_token,  # type: ignore[call-arg]  # as any config may
    )
