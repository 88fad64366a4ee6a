"""Untrained drafts that read their target, and a target for them, as checkpoints."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

from checkpoints import byte_tokenizer, write_llama
from edgespec_distill.data.draft_vocabulary import (
    DraftVocabulary,
    frequent_vocabulary,
    full_vocabulary,
)
from edgespec_distill.models.reading.block_module import BlockDraft
from edgespec_distill.models.reading.eagle_module import Eagle, feature_layers
from edgespec_distill.models.untrained_draft import untrained_draft
from edgespec_export.checkpoint.tokenizer.tokenizers_file import load_tokenizer

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
    target_tables: bool = False,
) -> tuple[Eagle, DraftVocabulary]:
    """An untrained EAGLE or block draft of `target`: writes a checkpoint, returns the torch module.

    Args:
        block: of a block draft, how many tokens one call drafts.
        target_tables: an EAGLE head that takes its tables and its tokenizer from the target.
    """
    model = AutoModelForCausalLM.from_pretrained(target, dtype=torch.float32).eval()
    embeddings = model.get_input_embeddings().weight.detach()
    vocabulary = full_vocabulary(SIZE)
    if tokens < SIZE:
        vocabulary = frequent_vocabulary([], [1], tokens, embeddings)
    body = untrained_draft(
        model, layers=layers, encoder_layers=1, width=None, vocabulary=vocabulary, seed=0
    )
    config = model.config
    shape = body, feature_layers(config.num_hidden_layers), config.hidden_size
    draft = BlockDraft(*shape, block) if block else Eagle(*shape, has_target_tables=target_tables)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():  # norms, maps and tables that do something
        for name, weight in draft.named_parameters():
            if not weight.requires_grad:
                continue
            size = 0.2 if weight.ndim == 1 or name.startswith(("ahead", "markov")) else 0.02
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
