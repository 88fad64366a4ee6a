"""An untrained block draft as a checkpoint; its target is that of `eagle_checkpoints`."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

from checkpoints import byte_tokenizer
from eagle_checkpoints import SIZE
from edgespec_distill.data.draft_vocabulary import (
    DraftVocabulary,
    frequent_vocabulary,
    full_vocabulary,
)
from edgespec_distill.models.block_module import BlockDraft
from edgespec_distill.models.eagle_module import feature_layers
from edgespec_distill.models.untrained_draft import untrained_draft

BLOCK = 4


def write_block(
    target: Path, folder: Path, *, layers: int = 1, tokens: int = SIZE
) -> tuple[BlockDraft, DraftVocabulary]:
    """An untrained block draft of `target`: writes its checkpoint, returns the torch module."""
    model = AutoModelForCausalLM.from_pretrained(target, dtype=torch.float32).eval()
    vocabulary = full_vocabulary(SIZE)
    if tokens < SIZE:
        embeddings = model.get_input_embeddings().weight.detach()
        vocabulary = frequent_vocabulary([], [1], tokens, embeddings)
    body = untrained_draft(
        model, layers=layers, encoder_layers=1, width=None, vocabulary=vocabulary, seed=0
    )
    config = model.config
    reads = feature_layers(config.num_hidden_layers)
    draft = BlockDraft(body, reads, config.hidden_size, BLOCK)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():  # norms, maps and tables that do something
        for name, weight in draft.named_parameters():
            size = 0.2 if weight.ndim == 1 or "markov" in name else 0.05
            weight += size * torch.randn(weight.shape, generator=generator)
    folder.mkdir()
    draft.save_pretrained(folder)
    vocabulary.save(folder)
    byte_tokenizer(SIZE).save(str(folder / "tokenizer.json"))
    return draft, vocabulary
