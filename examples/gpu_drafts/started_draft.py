"""The finished EAGLE draft that a training continues, with other tokens."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM

from edgespec_distill.data.draft_vocabulary import DraftVocabulary
from edgespec_distill.models.reading.eagle_module import Eagle
from edgespec_distill.models.start_weights import copy_weights, on_device_of, vocabulary_of

NOT_OF_ITS_LAYERS = ("architectures", "model_type", "target_layers", "target_hidden_size")


def started_draft(folder: Path, vocabulary: DraftVocabulary, target: Any) -> Eagle:
    """The draft in a folder, with other tokens; on its target's device and of its type.

    Args:
        vocabulary: the new tokens; on the CPU.
        target: its embedding and head have the rows of tokens that the draft lacked until now, and
            of all tokens if it has its target's tables.
    """
    config: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    layers, width = config["target_layers"], config["target_hidden_size"]
    has_target_tables = config.pop("target_tables", False)
    kind = config.pop("layers_of")
    own = {key: value for key, value in config.items() if key not in NOT_OF_ITS_LAYERS}
    settings = AutoConfig.for_model(kind, **own)
    body: Any = AutoModelForCausalLM.from_config(settings).float()  # type: ignore[no-untyped-call]
    draft = Eagle(body, layers, width, has_target_tables=has_target_tables)
    copy_weights(draft, folder)
    tables = [target.get_input_embeddings().weight, target.lm_head.weight]
    old = vocabulary_of(folder, draft.config.vocab_size, len(tables[0]))
    _give_tokens(draft, old, vocabulary, [table.cpu().float() for table in tables])
    _rename_tokens(draft.config, old, vocabulary)
    return cast("Eagle", on_device_of(target, draft))


def _give_tokens(
    draft: Eagle, old: DraftVocabulary, new: DraftVocabulary, tables: Sequence[Tensor]
) -> None:
    """Replaces the rows of embedding and head, whose tokens were `old`.

    Args:
        tables: the target's embedding and head, [target's tokens, width].
    """
    known = old.known(new.outputs)
    at = old.inputs[new.outputs[known]]
    for part, table in zip((draft.model.embed_tokens, draft.lm_head), tables, strict=True):
        rows = table[new.outputs]
        if not draft.has_target_tables:
            rows[known] = part.weight.detach()[at]
        part.weight = nn.Parameter(rows, requires_grad=part.weight.requires_grad)
    if draft.config.tie_word_embeddings:
        draft.lm_head.weight = draft.model.embed_tokens.weight


def _rename_tokens(config: Any, old: DraftVocabulary, new: DraftVocabulary) -> None:
    """The config's token ids in the new vocabulary."""
    config.vocab_size = len(new.outputs)
    for name in ("pad_token_id", "bos_token_id", "eos_token_id"):
        value = getattr(config, name, None)
        if value is not None:
            setattr(config, name, new.inputs[old.outputs[torch.tensor(value)]].tolist())
