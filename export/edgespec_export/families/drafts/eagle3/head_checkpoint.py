"""Opening a published draft that reads its target's hidden states: an EAGLE-3 head, or one that
fills blocks of masks. It has neither tokenizer nor, mostly, an embedding: it takes its target's."""

from __future__ import annotations

from edgespec.errors import EdgespecError, shortened
from edgespec_export.checkpoint.checkpoint import Checkpoint, open_checkpoint, open_weights
from edgespec_export.checkpoint.json_file import JsonObject, read_json_object
from edgespec_export.checkpoint.sources import Source
from edgespec_export.checkpoint.tokenizer.tokenizers_file import read_tokenizer_json
from edgespec_export.checkpoint.weights import Weights
from edgespec_export.families import Family, family_of
from edgespec_export.families.drafts.eagle3.eagle3 import Eagle3
from edgespec_export.families.drafts.gemma4.assistant_checkpoint import (
    assistant_config,
    open_assistant,
)
from edgespec_export.families.drafts.masked.masked_block import MaskedBlock
from edgespec_export.families.drafts.masked.other_layouts import (
    ARCHITECTURES,
    as_speculators,
    is_other_layout,
)
from edgespec_export.families.drafts.own_head import open_own_tables, own_head_config
from edgespec_export.families.drafts.qwen35.head_in_checkpoint import (
    has_own_head,
    open_own_head,
)
from edgespec_export.families.drafts.speculators import KIND
from edgespec_export.families.drafts.target_table import WithTargetTable

__all__ = ["open_checkpoints"]

ARCHITECTURE = "LlamaForCausalLMEagle3"  # of SpecForge's configs
LLAMA = "LlamaForCausalLM"  # of SafeAILab's, which differ from a Llama's by this key:
PROPOSES = "draft_vocab_size"
# In the layout of the package "speculators".
KINDS = (*Eagle3.model_types, *MaskedBlock.model_types)
OTHERS = ("dflash", "dspark", "eagle3")  # in the names of such drafts' architectures
# What a config may call the model that the layer is like; the layer is the same for all of them.
MODEL_TYPES = ("llama", "mistral", "phi3", "qwen2", "qwen3")


def open_checkpoints(target: Source, draft: Source | None) -> list[Checkpoint]:
    """Opens a target and its draft, if it has one, which may be a published one that reads it.

    Raises:
        EdgespecError: something is missing, corrupt or of an unknown kind, the target is a head, or
            the head is of another target.
    """
    if _head_config(target) is not None or own_head_config(target) is not None:
        raise EdgespecError(
            f"{target.label} is a draft that reads its target's hidden states, so it cannot be a "
            "target"
        )
    if assistant_config(target) is not None:
        raise EdgespecError(
            f"{target.label} is a draft that reads its target's keys and values (an assistant), so "
            "it cannot be a target"
        )
    opened = open_checkpoint(target)
    if draft is None:
        return [opened]
    if has_own_head(target, draft, opened):
        return [opened, open_own_head(opened)]
    assistant = assistant_config(draft)
    if assistant is not None:
        return [opened, open_assistant(draft, assistant, opened)]
    own = own_head_config(draft)
    if own is not None:
        return [opened, open_own_tables(draft, own, opened)]
    config = _head_config(draft)
    if config is None:
        return [opened, open_checkpoint(draft)]
    return [opened, _open_head(draft, config, opened)]


def _head_config(source: Source) -> JsonObject | None:
    """The config of such a draft, of whatever layout; None for other checkpoints."""
    file = source.path / "config.json"
    if source.path.is_file() or not file.is_file():
        return None
    config = read_json_object(file)
    return config if _is_head(config) else None


def _is_head(config: JsonObject) -> bool:
    if KIND in config or is_other_layout(config):
        return True
    names = config.get("architectures")
    if names == [LLAMA]:
        return PROPOSES in config
    if not isinstance(names, list):
        return False
    return any(other in str(name).lower() for name in names for other in OTHERS)


def _open_head(source: Source, config: JsonObject, target: Checkpoint) -> Checkpoint:
    if not is_other_layout(config):
        _check_kind(source, config)
    family = family_of(target.config, target.label)
    if family.encoder_layers is not None or family.with_layer_outputs([family.layers]) is None:
        raise EdgespecError(
            f"{source.label} reads the hidden states of a Llama-like target, and {target.label} is "
            "not one; pair it with the target it was trained for"
        )
    if is_other_layout(config):
        config = _translated(config, family.layers, source.label)
    shape: JsonObject = {"layers": family.layers, "positions": family.positions}
    model_type = config.get(KIND, Eagle3.model_types[0])
    config = {**config, "model_type": model_type, "target": shape}
    head = family_of(config, source.label)
    if head.input_vocab_size != family.vocab_size:
        raise EdgespecError(
            f"{head.label} reads {head.input_vocab_size} tokens and {target.label} has "
            f"{family.vocab_size}; pair it with the target it was trained for"
        )
    tokenizer = source.path / "tokenizer.json"
    return Checkpoint(
        config=config,
        weights=_with_tables(open_weights(source.path), head, target, family),
        tokenizer=read_tokenizer_json(tokenizer) if tokenizer.is_file() else target.tokenizer,
        chat=None,
        eos_token_ids=target.eos_token_ids,
        label=source.label,
    )


def _translated(config: JsonObject, layers: int, label: str) -> JsonObject:
    try:
        return as_speculators(config, layers, label)
    except (AttributeError, TypeError, ValueError) as error:
        raise EdgespecError(
            f"{label}: config.json has a value of the wrong kind ({error}); download it again"
        ) from None


def _check_kind(source: Source, config: JsonObject) -> None:
    if KIND in config:
        if config[KIND] not in KINDS:
            raise EdgespecError(
                f"{source.label}: config.json says {KIND} = {shortened(config[KIND])}; of drafts "
                f"in this layout edgespec exports {', '.join(KINDS)}"
            )
        return
    if config.get("architectures") not in ([ARCHITECTURE], [LLAMA]):
        raise EdgespecError(
            f"{source.label}: config.json says architectures = "
            f"{shortened(config.get('architectures'))}; edgespec exports EAGLE-3 heads only as "
            f"{ARCHITECTURE} (SpecForge), {LLAMA} with a {PROPOSES} (SafeAILab) or with a {KIND}, "
            f"and blocks of masks with it or as {', '.join(ARCHITECTURES)}"
        )
    if config.get("model_type") not in MODEL_TYPES:
        raise EdgespecError(
            f"{source.label}: config.json says model_type = "
            f"{shortened(config.get('model_type'))}; edgespec exports EAGLE-3 heads whose layer is "
            f"like that of {', '.join(MODEL_TYPES)}"
        )


def _with_tables(weights: Weights, head: Family, target: Checkpoint, family: Family) -> Weights:
    """The weights of a head, with the embedding of its target if it has none of its own; a draft
    that fills masks has its target's in any case, and its head where it proposes all tokens."""
    tables = {}
    if isinstance(head, MaskedBlock) or head.table not in weights.names():
        tables[head.table] = family.table
    if isinstance(head, MaskedBlock) and head.vocab_size == head.input_vocab_size:
        tables[head.head] = family.table if family.tied_head else family.head
    if not tables:
        return weights
    if head.width != family.width:
        raise EdgespecError(
            f"{head.label} takes the embedding of its target and is {head.width} wide, "
            f"{target.label} {family.width}; pair it with the target it was trained for"
        )
    return WithTargetTable(weights, family.view(target.weights), tables)
