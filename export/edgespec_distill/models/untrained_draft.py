"""A draft before its training: its target with fewer or narrower layers, and maybe fewer tokens."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from edgespec_distill.data.draft_vocabulary import DraftVocabulary
from edgespec_distill.models.llama_forward import head_size

__all__ = ["last_layers", "spread_layers", "untrained_draft", "writes_residual"]

# Entries that transformers adds to the config of a GGUF file.
GGUF_ENTRIES = ("quantization_config", "_model_name_or_path")
LayerSelection = Callable[[int, int], Sequence[int]]
_LAYER = re.compile(r"(.*\.(?:layers|block)\.)(\d+)(\..*)")
_PER_TOKEN = re.compile(r".*(shared|embed_tokens|lm_head)\.weight")
_FEED_FORWARD = re.compile(r"(.*\.mlp\.)(gate|up|down)_proj\.weight")
_WRITES_RESIDUAL = re.compile(r".*\.(o|wo|o_proj|down_proj)\.weight")


def spread_layers(count: int, of: int) -> list[int]:
    """`count` of a model's layers (indices), evenly spaced from the first to the last."""
    return [round(n * (of - 1) / max(1, count - 1)) for n in range(count)]


def last_layers(count: int, of: int) -> range:
    """The last `count` of a model's layers (indices)."""
    return range(of - count, of)


def untrained_draft(
    target: Any,
    *,
    layers: int,
    encoder_layers: int | None,
    width: int | None,
    feed_forward: int | None = None,
    vocabulary: DraftVocabulary,
    seed: int,
    keep: LayerSelection = spread_layers,
) -> Any:
    """An untrained draft in float32.

    With the target's width it is the target without most of its layers. A narrower draft starts
    with layers that add nothing to the residual stream. Its embeddings are the target's, projected
    on the principal axes that hold most of their variance; its T5 position biases are those of the
    target's first heads.

    Args:
        target: the transformers model.
        layers, encoder_layers: of the decoder, and of the encoder (None: there is none).
        width: of the hidden states; None: the target's.
        feed_forward: width of the feed-forward blocks, of a Llama of the target's width; None: the
            target's. Those of the target's units start it whose outputs are largest.
        vocabulary: the draft's tokens.
        keep: selects the target's layers: `spread_layers` or `last_layers`.
    """
    torch.manual_seed(seed)
    config = _small_config(target.config, layers, encoder_layers, width, vocabulary, keep)
    if feed_forward is not None:
        config.intermediate_size = feed_forward
    draft = type(target)(config).float()
    if target.lm_head.weight is not target.get_input_embeddings().weight:
        _untie(draft)
    target_weights = {name: weight.float() for name, weight in target.named_parameters()}
    same_width = config.hidden_size == target.config.hidden_size
    with torch.no_grad():
        for name, weight in draft.named_parameters():
            if _PER_TOKEN.fullmatch(name):
                rows = target_weights[name][vocabulary.outputs]
                weight.copy_(rows if same_width else _narrowed(rows, weight.shape[1]))
            elif same_width:
                origin = _origin(name, target.config, config, keep)
                whole = target_weights[origin]
                if feed_forward is not None and _FEED_FORWARD.fullmatch(name):
                    whole = _largest_units(origin, target_weights, feed_forward)
                weight.copy_(whole)
            elif writes_residual(name):
                weight.zero_()
            elif "relative_attention_bias" in name:  # [buckets, heads]
                weight.copy_(target_weights[name][:, : weight.shape[1]])
        if not same_width and getattr(config, "scale_decoder_outputs", False):
            draft.decoder.final_layer_norm.weight.fill_(config.d_model**0.5)
    return draft


def _untie(draft: Any) -> None:
    """Gives a draft a head that is separate from its embedding, as its target has one.

    The config of every loaded T5 says that the two are tied. Only when transformers loads weights
    does it find that those of v1.1 are not; a new model loads no weights.
    """
    draft.lm_head.weight = nn.Parameter(draft.lm_head.weight.detach().clone())
    draft.config.tie_word_embeddings = False


def writes_residual(name: str) -> bool:
    """Whether this weight's product is added to the residual stream."""
    return _WRITES_RESIDUAL.fullmatch(name) is not None


def _small_config(
    config: Any,
    layers: int,
    encoder_layers: int | None,
    width: int | None,
    vocabulary: DraftVocabulary,
    keep: LayerSelection,
) -> Any:
    small = copy.deepcopy(config)
    for name in GGUF_ENTRIES:
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
        selected = keep(layers, config.num_hidden_layers)
        small.layer_types = [config.layer_types[layer] for layer in selected]
    group = config.num_attention_heads // config.num_key_value_heads
    small.hidden_size, small.num_attention_heads = width, heads
    small.intermediate_size = round(config.intermediate_size * share)
    small.head_dim = head_size(config)
    small.num_key_value_heads = heads // group if heads % group == 0 else 1
    return small


def _heads(config: Any, width: int) -> int:
    """The draft's number of heads, in proportion to its width; a head keeps the target's size.

    In a narrower Llama the number must divide the width, because transformers requires it.
    """
    heads, of = int(config.num_attention_heads), int(config.hidden_size)
    share = max(1, round(heads * width / of))
    if width == of or config.is_encoder_decoder:
        return share
    return next(count for count in range(share, 0, -1) if width % count == 0)


def _origin(name: str, config: Any, small: Any, keep: LayerSelection) -> str:
    """The name of the target's weight from which a draft's weight starts."""
    found = _LAYER.fullmatch(name)
    if found is None or "relative_attention_bias" in name:  # in the first layer only
        return name
    before, layer, after = found.groups()
    count = "num_hidden_layers"
    if config.is_encoder_decoder:
        count = "num_layers" if before.startswith("encoder") else "num_decoder_layers"
    selected = keep(getattr(small, count), getattr(config, count))
    return f"{before}{selected[int(layer)]}{after}"


def _largest_units(name: str, weights: dict[str, Tensor], count: int) -> Tensor:
    """A matrix of a feed-forward block with the units alone whose columns of the last one are
    largest.

    Args:
        name: of the matrix among the target's weights.
        count: of units, at most as many as there are.
    """
    found = _FEED_FORWARD.fullmatch(name)
    assert found is not None
    size = weights[f"{found[1]}down_proj.weight"].norm(dim=0)
    units = size.topk(count).indices.sort().values
    return weights[name].index_select(1 if found[2] == "down" else 0, units)


def _narrowed(rows: Tensor, width: int) -> Tensor:
    """The rows projected on their principal axes, [tokens, width], with values of size 0.02."""
    centred = rows - rows.mean(0)
    axes = torch.linalg.eigh(centred.T @ centred).eigenvectors[:, -width:]
    projected: Tensor = rows @ axes
    return projected * float(0.02 / projected.std())
