"""Fixtures of the distillation tests: tiny targets and a file of prompts.

The plug-in is loaded for all tests, so only the fixtures that need torch import it.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from checkpoints import byte_tokenizer, write_llama, write_t5

VOCABULARY = 272


@pytest.fixture(scope="module")
def t5_folder(tmp_path_factory) -> Path:
    return write_t5(
        tmp_path_factory.mktemp("t5") / "target",
        vocab_size=VOCABULARY,
        tokenizer=byte_tokenizer(VOCABULARY, append_eos=True),
        layers=2,
        encoder_layers=2,
        heads=4,
        head_size=16,
        width=64,
        spread=1.5,
    )


@pytest.fixture(scope="module")
def llama_folder(tmp_path_factory) -> Path:
    return write_llama(
        tmp_path_factory.mktemp("llama") / "target",
        vocab_size=VOCABULARY,
        tokenizer=byte_tokenizer(VOCABULARY),
        layers=3,
        heads=4,
        kv_heads=2,
        head_size=16,
        max_position_embeddings=128,
        spread=1.5,
    )


@pytest.fixture
def prompts(tmp_path) -> Path:
    rng = random.Random(0)
    words = ["river", "stone", "light", "house", "green", "seven", "maybe", "under"]
    lines = [" ".join(rng.choices(words, k=3)) for _ in range(120)]
    file = tmp_path / "prompts.txt"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


@pytest.fixture(params=["t5", "llama"])
def learner(request, t5_folder, llama_folder):
    from distillation import causal, seq2seq

    return seq2seq(t5_folder) if request.param == "t5" else causal(llama_folder)
