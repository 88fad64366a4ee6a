"""A draft before its training: the target with fewer or narrower layers and maybe fewer tokens."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from edgespec.errors import UsageError
from edgespec_distill.data.draft_vocabulary import Vocabulary
from edgespec_distill.models.llama_forward import head_size

__all__ = ["adds", "check_width", "last", "small_model", "spread"]

UNIT = 16  # columns: an 8-bit export turns a stream in blocks of a power of two
# What transformers notes of a GGUF file in the config it makes for it.
OF_ITS_FILE = ("quantization_config", "_model_name_or_path")
Choice = Callable[[int, int], range | list[int]]
_LAYER = re.compile(r"(.*\.(?:layers|block)\.)(\d+)(\..*)")
_VOCABULARY = re.compile(r".*(shared|embed_tokens|lm_head)\.weight")
_ADDS = re.compile(r".*\.(o|wo|o_proj|down_proj)\.weight")


def spread(count: int, of: int) -> list[int]:
    """So many of a model's layers, evenly from the first to the last."""
    return [round(n * (of - 1) / max(1, count - 1)) for n in range(count)]


def last(count: int, of: int) -> range:
    """So many of a model's layers, the last ones."""
    return range(of - count, of)


def small_model(
    target: Any,
    *,
    layers: int,
    encoder_layers: int | None,
    width: int | None,
    vocabulary: Vocabulary,
    seed: int,
    keep: Choice = spread,
) -> Any:
    """An untrained draft in float32.

    Of the target's own width it is the target without most of its layers. Narrower, its layers
    begin by adding nothing to the embeddings, which are the target's, turned so that the columns
    kept hold most of their variance; its heads look as far as the target's first ones.

    Args:
        target: the transformers model.
        layers, encoder_layers: of the decoder, and of the encoder (None: there is none).
        width: of the hidden states; None keeps the target's.
        vocabulary: the draft's tokens.
        keep: which of the target's layers: `spread` or `last`.
    """
    torch.manual_seed(seed)
    config = _small_config(target.config, layers, encoder_layers, width, vocabulary, keep)
    draft = type(target)(config).float()
    if target.lm_head.weight is not target.get_input_embeddings().weight:
        _untie(draft)
    theirs = {name: weight.float() for name, weight in target.named_parameters()}
    same_width = config.hidden_size == target.config.hidden_size
    with torch.no_grad():
        for name, weight in draft.named_parameters():
            if _VOCABULARY.fullmatch(name):
                rows = theirs[name][vocabulary.outputs]
                weight.copy_(rows if same_width else _narrowed(rows, weight.shape[1]))
            elif same_width:
                weight.copy_(theirs[_origin(name, target.config, config, keep)])
            elif adds(name):
                weight.zero_()
            elif "relative_attention_bias" in name:  # [buckets, heads]
                weight.copy_(theirs[name][:, : weight.shape[1]])
        if not same_width and getattr(config, "scale_decoder_outputs", False):
            draft.decoder.final_layer_norm.weight.fill_(config.d_model**0.5)
    return draft


def _untie(draft: Any) -> None:
    """Gives a draft a head of its own, as its target has one.

    The config of every T5 in memory says that the two are tied; transformers finds out as it loads
    the weights that those of v1.1 are not, and a new model has no weights to find it out from.
    """
    draft.lm_head.weight = nn.Parameter(draft.lm_head.weight.detach().clone())
    draft.config.tie_word_embeddings = False


def adds(name: str) -> bool:
    """Whether this is a weight whose product is added to the stream."""
    return _ADDS.fullmatch(name) is not None


def check_width(width: int | None, of: int) -> None:
    """Raises UsageError if no draft of a target that is `of` wide can have this width.

    Heads have their own size, so nothing else depends on a width.
    """
    if width is None or width == of or (width % UNIT == 0 and 0 < width < of):
        return
    raise UsageError(
        f"width is {width}; give a multiple of {UNIT} below the target's, which is {of}, or leave "
        "it out"
    )


def _small_config(
    config: Any,
    layers: int,
    encoder_layers: int | None,
    width: int | None,
    vocabulary: Vocabulary,
    keep: Choice,
) -> Any:
    small = copy.deepcopy(config)
    for name in OF_ITS_FILE:
        if hasattr(small, name):
            delattr(small, name)
    small.vocab_size = len(vocabulary.outputs)
    for name in ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"):
        value = getattr(small, name, None)
        if value is not None:
            setattr(small, name, vocabulary.inputs[torch.tensor(value)].tolist())
    width = width or int(config.hidden_size)
    heads = _heads(config, width)
    share = width / config.hidden_size
    if config.is_encoder_decoder:
        small.num_layers, small.num_decoder_layers = encoder_layers, layers
        small.d_model, small.d_ff, small.num_heads = width, round(config.d_ff * share), heads
        small.dropout_rate = 0.0
        return small
    small.num_hidden_layers = layers
    if getattr(config, "layer_types", None):
        kept = keep(layers, config.num_hidden_layers)
        small.layer_types = [config.layer_types[layer] for layer in kept]
    group = config.num_attention_heads // config.num_key_value_heads
    small.hidden_size, small.num_attention_heads = width, heads
    small.intermediate_size = round(config.intermediate_size * share)
    small.head_dim = head_size(config)
    small.num_key_value_heads = heads // group if heads % group == 0 else 1
    return small


def _heads(config: Any, width: int) -> int:
    """How many heads of the target's size a draft has: its share, so all at the target's width.

    Of a narrower Llama, transformers wants a number that divides the width.
    """
    heads, of = int(config.num_attention_heads), int(config.hidden_size)
    share = max(1, round(heads * width / of))
    if width == of or config.is_encoder_decoder:
        return share
    return next(count for count in range(share, 0, -1) if width % count == 0)


def _origin(name: str, config: Any, small: Any, keep: Choice) -> str:
    """The target's name of the weight that a draft's weight starts from."""
    found = _LAYER.fullmatch(name)
    if found is None or "relative_attention_bias" in name:  # in the first layer only
        return name
    before, layer, after = found.groups()
    count = "num_hidden_layers"
    if config.is_encoder_decoder:
        count = "num_layers" if before.startswith("encoder") else "num_decoder_layers"
    kept = keep(getattr(small, count), getattr(config, count))
    return f"{before}{kept[int(layer)]}{after}"


def _narrowed(rows: Tensor, width: int) -> Tensor:
    """[tokens, width]: the rows along their principal axes, small enough to learn from there."""
    centred = rows - rows.mean(0)
    axes = torch.linalg.eigh(centred.T @ centred).eigenvectors[:, -width:]
    turned: Tensor = rows @ axes
    return turned * float(0.02 / turned.std())
