"""Checkpoints, plans and models that the tests of distillation share."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

from checkpoints import byte_tokenizer, write_llama, write_t5
from distill_fixtures import VOCABULARY
from edgespec_distill.data.draft_vocabulary import (
    full_vocabulary,
)
from edgespec_distill.data.examples import Text
from edgespec_distill.data.text_generation import (
    GenerationSettings,
)
from edgespec_distill.models.causal import Causal
from edgespec_distill.models.seq2seq import Seq2Seq
from edgespec_distill.models.untrained_draft import untrained_draft
from edgespec_distill.plan import Plan

TEXTS = [Text([5, 6, 7], [8, 9, 1]), Text([5], [4, 3]), Text([9, 8, 7, 6, 5], [11, 12, 13, 14])]


PLAN = Plan(
    layers=1,
    width=32,
    steps=120,
    max_new_tokens=12,
    positions=512,
    rate=5e-3,
    target_format="original",
)


LATER = {
    "layers": 1,
    "steps": 1,
    "max_new_tokens": 12,
    "positions": 512,
    "rate": 1e-9,
    "target_format": "original",
}


def seq2seq(folder) -> Seq2Seq:
    model = AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float32).eval()
    return Seq2Seq(model, full_vocabulary(model.config.vocab_size), start_token=0)


def causal(folder) -> Causal:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    return Causal(model, full_vocabulary(model.config.vocab_size))


def greedily(length: int, ends: list[int], **manner) -> GenerationSettings:
    return GenerationSettings(length, ends, temperature=0.0, **manner)


AWKWARD = {"heads": 3, "head_size": 16, "width": 42}  # the heads have 48 columns, the width is 42


FAMILIES = {
    "t5 v1.0": {**AWKWARD, "encoder_layers": 2},
    "t5 v1.1": {**AWKWARD, "encoder_layers": 2, "gated": True},
    "mt5": {**AWKWARD, "encoder_layers": 2, "gated": True, "model_type": "mt5"},
    "llama": {**AWKWARD, "tie_word_embeddings": False},
    "llama, tied": {**AWKWARD, "tie_word_embeddings": True},
    "qwen3": {**AWKWARD, "heads": 6, "kv_heads": 2, "model_type": "qwen3"},
}


def write_family(family: str, folder: Path, **changes) -> Path:
    encodes = "t5" in family
    tokens = byte_tokenizer(VOCABULARY, append_eos=encodes)
    settings = {"layers": 2, **FAMILIES[family], **changes}
    write = write_t5 if encodes else write_llama
    return write(folder, vocab_size=VOCABULARY, tokenizer=tokens, **settings)


def untrained(target, **shape):
    return untrained_draft(
        target, encoder_layers=2, vocabulary=full_vocabulary(VOCABULARY), seed=0, **shape
    )


def interrupted(*_):
    raise KeyboardInterrupt
