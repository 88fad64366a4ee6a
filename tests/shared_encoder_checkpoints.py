"""T5 drafts that read their target's encoder, and a target for them, as checkpoints."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import AutoModelForSeq2SeqLM

from checkpoints import byte_tokenizer, write_t5
from edgespec_distill.data.draft_vocabulary import full_vocabulary
from edgespec_distill.models.reading.shared_encoder_module import SharedEncoder
from edgespec_distill.models.untrained_draft import untrained_draft

SIZE = 272


def write_target(folder: Path, *, width: int = 32, layers: int = 3, gated: bool = False) -> Path:
    return write_t5(
        folder,
        vocab_size=SIZE,
        width=width,
        heads=2,
        head_size=16,
        layers=layers,
        encoder_layers=2,
        gated=gated,
        tokenizer=byte_tokenizer(SIZE, append_eos=True),
    )


def write_draft(target: Path, folder: Path, *, width: int | None, layers: int = 1) -> SharedEncoder:
    """An untrained draft whose layers, unlike those that a training starts from, all do something:
    writes a checkpoint, returns the torch module."""
    model = AutoModelForSeq2SeqLM.from_pretrained(target, dtype=torch.float32).eval()
    shape = {"layers": layers, "encoder_layers": 1, "width": width}
    body = untrained_draft(model, **shape, vocabulary=full_vocabulary(SIZE), seed=0)
    draft = SharedEncoder(body, model)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in draft.parameters():
            weight += 0.05 * torch.randn(weight.shape, generator=generator)
    folder.mkdir()
    draft.save_pretrained(folder)
    byte_tokenizer(SIZE, append_eos=True).save(str(folder / "tokenizer.json"))
    return draft
