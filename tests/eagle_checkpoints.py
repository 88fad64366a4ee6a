"""Untrained drafts that read their target, and a target for them, as checkpoints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from checkpoints import byte_tokenizer, write_llama
from edgespec_distill.data.draft_vocabulary import (
    DraftVocabulary,
    frequent_vocabulary,
    full_vocabulary,
)
from edgespec_distill.models import target_ends
from edgespec_distill.models.reading.block_module import BlockDraft
from edgespec_distill.models.reading.eagle_module import Eagle, feature_layers
from edgespec_distill.models.target_ends import open_ends
from edgespec_distill.models.untrained_draft import untrained_draft
from edgespec_distill.plan import Plan
from edgespec_export.checkpoint.checkpoint import open_checkpoint
from edgespec_export.checkpoint.sources import resolve
from edgespec_export.checkpoint.tokenizer.tokenizers_file import load_tokenizer
from edgespec_export.families.t5 import T5
from edgespec_export.families.tensor_check import fitted

SIZE = 272
GUESSES = 3
PROMPT = (40, 41, 42, 50, 60, 61, 7)


def write_eagle(
    target: Path,
    folder: Path,
    *,
    layers: int = 1,
    tokens: int = SIZE,
    block: int | None = None,
    width: int | None = None,
    target_tables: bool = False,
) -> tuple[Eagle, DraftVocabulary]:
    """An untrained EAGLE or block draft of `target`: writes a checkpoint, returns the torch module.

    Args:
        target: a Llama, whose layers the draft's start from, or a T5.
        block: of a block draft, how many tokens one call drafts.
        target_tables: an EAGLE head that takes its tables and its tokenizer from the target.
    """
    model, target_layers, spread = _start(target, layers)
    embeddings = model.get_input_embeddings().weight.detach()
    vocabulary = full_vocabulary(SIZE)
    if tokens < SIZE:
        vocabulary = frequent_vocabulary([], [1], tokens, embeddings)
    body = untrained_draft(
        model, layers=layers, encoder_layers=1, width=width, vocabulary=vocabulary, seed=0
    )
    shape = body, feature_layers(target_layers), model.config.hidden_size
    draft = BlockDraft(*shape, block) if block else Eagle(*shape, has_target_tables=target_tables)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():  # norms, maps and tables that do something
        for name, weight in draft.named_parameters():
            if not weight.requires_grad:
                continue
            size = 0.2 if weight.ndim == 1 or name.startswith(("ahead", "markov")) else spread
            weight += size * torch.randn(weight.shape, generator=generator)
    folder.mkdir()
    draft.save_pretrained(folder)
    vocabulary.save(folder)
    if target_tables:
        return draft, vocabulary
    # As `edgespec distill` does: the tokenizer that the target's class makes.
    settings = json.loads((target / "config.json").read_text())
    load_tokenizer(target, settings).save(str(folder / "tokenizer.json"))
    return draft, vocabulary


def _start(target: Path, layers: int) -> tuple[Any, int, float]:
    """The model whose tables and layers a draft starts from, the number of the target's layers, and
    the size of numbers that make the draft's layers do something."""
    checkpoint = open_checkpoint(resolve(str(target)))
    family = fitted(checkpoint)
    if not isinstance(family, T5):
        model = AutoModelForCausalLM.from_pretrained(target, dtype=torch.float32).eval()
        return model, family.layers, 0.02
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(target_ends, "training_dtype", lambda _: torch.float32)
        ends = open_ends(checkpoint, family, Plan(layers=layers, eagle=True, steps=1))
    return ends.model, family.layers, 0.2


def write_target(folder: Path, kind: str, **config: object) -> Path:
    return write_llama(
        folder,
        model_type=kind,
        vocab_size=SIZE,
        tokenizer=byte_tokenizer(SIZE),
        layers=3,
        heads=4,
        kv_heads=2,
        head_size=16,
        spread=1.5,
        **{"tie_word_embeddings": kind != "qwen3", **config},
    )
